"""Texts that several threads want at the same time, embedded in one call: many cost little more than one."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTimeError
from typing import NamedTuple

from providers import deadlines
from providers.embeddings.base import EmbeddingConnection
from schemas.errors import UnavailableError
from schemas.records import Vector

MAX_TEXTS = 32
"""Of one call; more would keep the first of them waiting for the last."""
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
    """One connection's single texts. While as many calls run as it takes at a time (`parallel_calls`), texts gather in
    `waiting` for the next one, which has those of one model. There is no thread while there is no text."""

    def __init__(self, connection: EmbeddingConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.waiting: list[_Wanted] = []
        self._running = 0

    def embed(self, text: str, model: str) -> Vector:
        """float32 (dimension,). Raises what `EmbeddingConnection.embed` raises for this text alone, and
        UnavailableError when there is no answer within the deadline of the caller; nobody waits for it then."""
        seconds_left = deadlines.seconds_left()
        wanted = _Wanted(text, model, seconds_left, time.monotonic(), Future())
        with self._lock:
            self.waiting.append(wanted)
            if self._running < self._connection.parallel_calls:
                self._running += 1
                threading.Thread(target=self._run, name="embedding-batch", daemon=True).start()
        try:
            return wanted.answer.result(None if math.isinf(seconds_left) else seconds_left)
        except NotInTimeError:
            if wanted.answer.done():
                raise
            wanted.answer.cancel()
            raise embedding_timeout(seconds_left, self._connection.id) from None

    def _run(self) -> None:
        while batch := self._next_batch():
            self._embed(batch)

    def _next_batch(self) -> list[_Wanted]:
        """Up to `MAX_TEXTS` of the model that has waited longest. Empty when there are none: the thread is to end."""
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
            # As long as the one who has most time: nobody's text is given up for somebody else's haste.
            with deadlines.within(max(each.time_left() for each in batch)):
                vectors = self._connection.embed([each.text for each in batch], model=batch[0].model)
        except BaseException as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            # One text that is refused, or too many at once, is not the others' fault.
            for each in batch:
                self._embed([each])
            return
        for each, vector in zip(batch, vectors, strict=True):
            each.answer.set_result(vector)


def embedding_timeout(seconds: float, provider: str = "") -> UnavailableError:
    """No embedding came while somebody waited for it, for so many seconds."""
    who = f"The embedding service '{provider}'" if provider else "The embedding service"
    sentence = f"{who} gave no answer within {round(seconds, 2):g} s"
    return UnavailableError(sentence, code=EMBEDDING_TIMEOUT, error_type="timeout")
