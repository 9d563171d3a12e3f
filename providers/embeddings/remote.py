"""The code that embedding providers over HTTP share: the service, calls for many texts, and reading vectors from
JSON."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider, UnusableVectorError
from providers.outbound import deadlines
from providers.outbound.call_sizes import Calls, CallSize, by_halves, failure_for
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.number_dialect import NumberDialect
from providers.outbound.refusals import RefusedCallError, RefusedTextsError
from schemas.errors import UnavailableError
from schemas.records import Vector

# OpenAI takes 300,000 tokens per request; a token is seldom less than two bytes.
MAX_BATCH_BYTES = 500_000
NO_VECTOR = "an embedding that is not a list of numbers"
TRIED_TEXTS = 32
"""The texts of the call by which a connection is tried out: as many as uploads send in one."""


class RemoteEmbeddingProvider(EmbeddingProvider):
    """Asks for at most `batch_size` texts (and half a megabyte of text) at a time, one request after the other, and for
    fewer where the service turns out to take fewer.

    The configuration's `timeout_seconds` limits each silence of the server, not the whole answer. `sleep`, `clock`
    (seconds since the epoch, for Retry-After dates) and `monotonic` serve the retries.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(config, context)
        self._service = JsonClient(
            self.config["url"],
            NumberDialect("embedding service", self.id, clock=clock),
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry,
            sleep=sleep,
            monotonic=monotonic,
        )
        self._calls = Calls(
            (self.kind, self.id, self.config["url"], self.model),
            CallSize(self.config["batch_size"], MAX_BATCH_BYTES),
            self.context.call_sizes,
            anew=self.context.is_trial,
            clock=clock,
        )

    def close(self) -> None:
        self._service.close()

    @abstractmethod
    def _ask(self, model: str, given: list[str] | str) -> list[Vector]:
        """Return one vector for each text that is given, in their order. A text alone is sent as a string."""

    def _embed(self, texts: list[str]) -> Vector:
        return self._embed_by(self.model, texts)

    def _embed_by(self, model: str, texts: list[str]) -> Vector:
        try:
            ask = partial(self._ask, model)
            answers = self._calls.ask(texts, ask, ask)
            self._check_lengths(texts, answers.rows)
        except UnusableVectorError as error:
            raise error.among(texts) from error
        except (UnavailableError, RefusedCallError) as failure:
            if len(texts) == 1 or deadlines.is_single():
                raise  # whoever asks for parts asks for fewer
            named = partial(failure_for, UnusableVectorError, texts)
            vectors, passed = by_halves(texts, partial(self._embed_by, model), failure, named)
            self._calls.suspect(len(texts), passed)
            return np.stack(vectors)
        if answers.refused:
            raise RefusedTextsError(texts, answers.refused, answers.rows)
        return np.stack([answers.rows[place] for place in range(len(texts))])

    def _check_lengths(self, texts: list[str], rows: Mapping[int, Vector]) -> None:
        [(usual, _), *others] = Counter(map(len, rows.values())).most_common()
        if others:
            odd = next(place for place, row in sorted(rows.items()) if len(row) != usual)
            what = f"vectors of different dimensions, {usual} and {len(rows[odd])}"
            raise self._unusable_for(texts[odd], what)

    def try_out(self) -> dict[str, Any]:
        texts = [f"connection test {number}" for number in range(1, min(TRIED_TEXTS, self._calls.most.texts) + 1)]
        self.embed(texts)
        return {"model": self.model, "dimension": self.dimension, **self._calls.told()}

    def _list_of(self, answer: Any, key: str, count: int) -> list[Any]:
        values = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(values, list):
            raise self._unusable(f"without a list under '{key}'")
        if len(values) != count:
            raise self._unusable(f"{len(values)} embeddings for {count} texts")
        return values

    def _vector_of(self, value: Any, text: str) -> Vector:
        try:
            numbers = np.asarray(value if isinstance(value, list) else None)
        except ValueError as exc:
            raise self._unusable_for(text, NO_VECTOR) from exc
        if numbers.ndim != 1 or numbers.dtype.kind not in "fi":
            raise self._unusable_for(text, NO_VECTOR)
        with np.errstate(over="ignore"):  # too large numbers become infinite and are refused then
            return numbers.astype(np.float32)
