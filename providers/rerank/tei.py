"""Reranking by a Text Embeddings Inference server, in its own protocol."""

from __future__ import annotations

from functools import partial

from providers.base import Registry
from providers.outbound.answers import array
from providers.outbound.recognition import Sign
from providers.rerank.base import RerankProvider
from schemas.configuration import JsonSchema, read_schema


class TEIProvider(RerankProvider):
    """Asks `POST {url}/rerank` for at most `batch_size` texts at a time.

    The server has one model, a cross-encoder, which scores each text by itself; longer texts than it reads are cut.
    """

    id = "tei"
    sign = Sign("/info", "model_id")
    display_name = "Text Embeddings Inference"
    description = "A reranking model on Hugging Face's Text Embeddings Inference"

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rerank-tei")

    def _rerank(self, query: str, texts: list[str]) -> list[float]:
        return self._in_calls(texts, partial(self._ask, query))

    def _ask(self, query: str, texts: list[str]) -> list[float]:
        answer = self._fields.post("/rerank", {"query": query, "texts": texts}, {"truncate": True})
        with self._service.reading():
            results = array(answer)
        return self._scores(results, "score", texts)


def register(registry: Registry) -> None:
    registry.register(TEIProvider)
