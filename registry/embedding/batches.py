"""Batches texts that several threads want embedded at the same time: a call for many costs little more than for one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from typing import NamedTuple

from providers.embeddings.base import EmbeddingProvider, UnusableVectorError, checked_texts
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from schemas.errors import InvalidInputError, NoThreadError, UnavailableError
from schemas.records import Vector
from schemas.threads import begin_thread

MAX_TEXTS = 32
"""Texts in one call; with more, the first would wait too long for the last."""
EMBEDDING_TIMEOUT = "embedding_timeout"


class _Wanted(NamedTuple):
    text: str
    model: str
    seconds_left: float
    since: float
    answer: Future[Vector]

    def time_left(self) -> float:
        return self.since + self.seconds_left - time.monotonic()


class EmbeddingBatches:
    """Batches the single texts that one connection is asked to embed.

    While as many calls run as the connection takes at a time (`parallel_calls`), texts gather in `waiting` for the next
    call; a call has texts of one model only. No thread runs while there is no text.
    """

    def __init__(self, connection: EmbeddingProvider) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.waiting: list[_Wanted] = []
        self._running = 0

    def embed(self, text: str, model: str) -> Vector:
        """Return the text's vector, float32 (dimension,).

        Raises what `EmbeddingProvider.embed` raises for this text alone, or for a call that failed as a whole, which is
        not made again; UnavailableError when there is no answer within the caller's deadline: the text is given up; and
        NoThreadError.
        """
        checked_texts([text])  # one that nobody would embed must not fail the others
        seconds_left = deadlines.seconds_left()
        wanted = _Wanted(text, model, seconds_left, time.monotonic(), Future())
        with self._lock:
            self.waiting.append(wanted)
            if self._running < self._connection.parallel_calls:
                self._begin_running(wanted)
        try:
            return wanted.answer.result(None if math.isinf(seconds_left) else seconds_left)
        except NotInTimeError:
            if wanted.answer.done():
                raise
            wanted.answer.cancel()
            raise embedding_timeout(seconds_left, self._connection.id) from None

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

    def _embed(self, batch: Sequence[_Wanted]) -> None:
        try:
            # The longest time left counts: no text is given up because another caller has less time.
            with deadlines.within(max(each.time_left() for each in batch)):
                vectors = self._connection.embed([each.text for each in batch], model=batch[0].model)
        except RefusedTextsError as refusal:
            for place, error in refusal.refused.items():
                batch[place].answer.set_exception(error)
            for place, vector in refusal.accepted.items():
                batch[place].answer.set_result(vector)
            self._embed_others(batch)
            return
        except UnusableVectorError as error:
            # Nobody is told of the text of another caller.
            for each in batch:
                if each.text == error.text:
                    each.answer.set_exception(error.among([each.text]))
            self._embed_others(batch)
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

    def _embed_others(self, batch: Sequence[_Wanted]) -> None:
        others = [each for each in batch if not each.answer.done()]
        if others:
            self._embed(others)


def embedding_timeout(seconds: float, provider: str = "") -> UnavailableError:
    """Return the error for a caller that waited `seconds` for an embedding."""
    who = f"The embedding service '{provider}'" if provider else "The embedding service"
    sentence = f"{who} gave no answer within {round(seconds, 2):g} s"
    return UnavailableError(sentence, code=EMBEDDING_TIMEOUT, error_type="timeout")
