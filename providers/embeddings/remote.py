"""The code that embedding providers over HTTP share: the service, batches, and reading vectors from JSON."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.vendor_dialect import VendorDialect
from schemas.access.callers import check_acting
from schemas.records import Vector

# OpenAI takes 300,000 tokens per request; a token is seldom less than two bytes.
MAX_BATCH_BYTES = 500_000


class RemoteEmbeddingProvider(EmbeddingProvider):
    """Asks for at most `batch_size` texts (and half a megabyte of text) at a time, one request after the other.

    The configuration's `timeout_seconds` limits each silence of the server, not the whole answer. `sleep` and `clock`
    (seconds since the epoch, for Retry-After dates) serve the retries.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(config, context)
        self._batch_size: int = self.config["batch_size"]
        self._service = JsonClient(
            self.config["url"],
            VendorDialect("embedding service", self.id, clock=clock),
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry,
            sleep=sleep,
        )

    def close(self) -> None:
        self._service.close()

    @abstractmethod
    def _ask(self, model: str, batch: list[str]) -> list[Vector]:
        """Return one vector for each text of the batch, in its order."""

    def _embed(self, texts: list[str]) -> Vector:
        return self._embed_by(self.model, texts)

    def _embed_by(self, model: str, texts: list[str]) -> Vector:
        rows: list[Vector] = []
        for batch in _batches(texts, self._batch_size, MAX_BATCH_BYTES):
            if rows:
                check_acting()  # the batch before may have taken long
            rows.extend(self._ask(model, batch))
        if len({len(row) for row in rows}) != 1:
            raise self._unusable("vectors of different dimensions")
        return np.stack(rows)

    def _list_of(self, answer: Any, key: str, count: int) -> list[Any]:
        values = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(values, list):
            raise self._unusable(f"without a list under '{key}'")
        if len(values) != count:
            raise self._unusable(f"{len(values)} embeddings for {count} texts")
        return values

    def _vector_of(self, value: Any) -> Vector:
        try:
            numbers = np.asarray(value if isinstance(value, list) else None)
        except ValueError as exc:
            raise self._unusable("an embedding that is not a list of numbers") from exc
        if numbers.ndim != 1 or numbers.dtype.kind not in "fi":
            raise self._unusable("an embedding that is not a list of numbers")
        with np.errstate(over="ignore"):  # too large numbers become infinite and are refused then
            return numbers.astype(np.float32)


def _batches(texts: list[str], max_texts: int, max_bytes: int) -> Iterator[list[str]]:
    batch: list[str] = []
    batch_bytes = 0
    for text in texts:
        text_bytes = len(text.encode())
        if batch and (len(batch) == max_texts or batch_bytes + text_bytes > max_bytes):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(text)
        batch_bytes += text_bytes
    yield batch
