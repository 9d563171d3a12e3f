"""Reranking by Cohere's protocol, which Jina, vLLM, llama.cpp, LocalAI and others speak too."""

from __future__ import annotations

from functools import partial

from providers.base import Registry
from providers.outbound.answers import listed
from providers.rerank.base import RerankProvider
from schemas.configuration import JsonSchema, read_schema


class CohereProvider(RerankProvider):
    """Asks `POST {url}/rerank` for the scores of all texts in one request where that is possible, since some models
    compare the texts."""

    id = "cohere"
    display_name = "Cohere, Jina and compatible"
    description = "Cohere, Jina, or a server that speaks like them: vLLM, llama.cpp, LocalAI, …"

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rerank-cohere")

    def _rerank(self, query: str, texts: list[str]) -> list[float]:
        return self._in_calls(texts, partial(self._ask, query))

    def _ask(self, query: str, texts: list[str]) -> list[float]:
        body = {"model": self.model, "query": query, "documents": texts}
        answer = self._fields.post("/rerank", body, {"top_n": len(texts)})
        with self._service.reading():
            results = listed(answer, "results")
        return self._scores(results, "relevance_score", texts)


def register(registry: Registry) -> None:
    registry.register(CohereProvider)
