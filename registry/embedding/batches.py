"""Batches texts that several threads want embedded at the same time: a call for many costs little more than for one."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from providers.embeddings.base import EmbeddingProvider, UnusableVectorError, checked_texts
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from schemas.errors import InvalidInputError, NoThreadError, UnavailableError
from schemas.records import Vector
from schemas.threads import begin_thread

MAX_TEXTS = 32
"""Texts in one call; with more, the first would wait too long for the last."""
EMBEDDING_TIMEOUT = "embedding_timeout"


@dataclass(eq=False)
class _Wanted:
    text: str
    model: str
    ends_at: float
    answer: Future[Vector] = field(default_factory=Future)
    is_given_up: bool = False
    """Whether its caller waits no longer."""


class EmbeddingBatches:
    """Batches the single texts that one connection is asked to embed.

    While as many calls run as the connection takes at a time (`parallel_calls`), texts gather in `waiting` for the next
    call; a call has texts of one model only, and ends when none of their callers waits for it any more. No thread runs
    while there is no text.
    """

    def __init__(self, connection: EmbeddingProvider) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.waiting: list[_Wanted] = []
        self._running = 0

    def embed(self, text: str, model: str) -> Vector:
        """Return the text's vector, float32 (dimension,).

        Raises what `EmbeddingProvider.embed` raises for this text alone, or for a call that failed as a whole, which is
        not made again; UnavailableError when there is no answer within the caller's deadline, and ClientGoneError when
        their client leaves before: the text is given up; and NoThreadError.
        """
        checked_texts([text])  # one that nobody would embed must not fail the others
        seconds_left = deadlines.seconds_left()
        wanted = _Wanted(text, model, time.monotonic() + seconds_left)
        with self._lock:
            self.waiting.append(wanted)
            if self._running < self._connection.parallel_calls:
                self._begin_running(wanted)
        try:
            if deadlines.finished(wanted.answer):
                return wanted.answer.result()
            raise embedding_timeout(seconds_left, self._connection.id)
        finally:
            wanted.is_given_up = True
            wanted.answer.cancel()  # where no call has it yet

    def _begin_running(self, wanted: _Wanted) -> None:
        try:
            begin_thread("embedding-batch", self._run)
        except NoThreadError:
            if not self._running:  # else those that run take the text
                self.waiting.remove(wanted)
                raise
        else:
            self._running += 1

    def _run(self) -> None:
        while batch := self._next_batch():
            self._embed(batch)

    def _next_batch(self) -> list[_Wanted]:
        """Return up to `MAX_TEXTS` texts of the model that has waited longest; an empty list ends the thread."""
        with self._lock:
            batch: list[_Wanted] = []
            later: list[_Wanted] = []
            for each in self.waiting:
                if batch and (len(batch) == MAX_TEXTS or each.model != batch[0].model):
                    later.append(each)
                elif each.answer.set_running_or_notify_cancel():
                    batch.append(each)
            self.waiting = later
            if not batch:
                self._running -= 1
            return batch

    def _embed(self, asked: Sequence[_Wanted]) -> None:
        batch = [each for each in asked if not (each.is_given_up or each.answer.done())]
        if not batch:
            return
        # The longest time left counts: no text is given up because another caller has less time.
        seconds_left = max(each.ends_at for each in batch) - time.monotonic()
        try:
            with deadlines.within(seconds_left), deadlines.while_wanted(lambda: all(e.is_given_up for e in batch)):
                vectors = self._connection.embed([each.text for each in batch], model=batch[0].model)
        except RefusedTextsError as refusal:
            for place, error in refusal.refused.items():
                batch[place].answer.set_exception(error)
            for place, vector in refusal.accepted.items():
                batch[place].answer.set_result(vector)
            self._embed(batch)
            return
        except UnusableVectorError as error:
            # Nobody is told of the text of another caller.
            for each in batch:
                if each.text == error.text:
                    each.answer.set_exception(error.among([each.text]))
            self._embed(batch)
            return
        except BaseException as error:
            if isinstance(error, InvalidInputError) and "status" not in error.details and len(batch) > 1:
                # The provider has not told the refused text from the others.
                for each in batch:
                    self._embed([each])
                return
            for each in batch:
                each.answer.set_exception(error)
            return
        for each, vector in zip(batch, vectors, strict=True):
            each.answer.set_result(vector)


def embedding_timeout(seconds: float, provider: str = "") -> UnavailableError:
    """Return the error for a caller that waited `seconds` for an embedding."""
    who = f"The embedding service '{provider}'" if provider else "The embedding service"
    sentence = f"{who} gave no answer within {round(seconds, 2):g} s"
    return UnavailableError(sentence, code=EMBEDDING_TIMEOUT, error_type="timeout")
