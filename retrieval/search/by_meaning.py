"""What contracts of retrieval by meaning alone have in common: passages by their cosines, and errors of their own."""

from __future__ import annotations

from retrieval.failures import store_errors
from retrieval.search.asking import SearchFailedError
from retrieval.search.engine import SearchEngine
from schemas.contracts.search import FusedResult, SearchAnswer, SearchRequest

SEMANTIC = "semantic"
BY_MEANING = (SEMANTIC,)


def search_by_meaning(engine: SearchEngine, request: SearchRequest) -> SearchAnswer:
    """Return the answer to a request that asks the oracle of meaning alone.

    Raises EmbeddingFailureError when the question cannot be embedded, VectorDBUnavailableError when the store fails,
    and the other errors of `SearchEngine.search`.
    """
    with store_errors():
        try:
            return engine.search(request)
        except SearchFailedError as error:
            raise error.failures[SEMANTIC] from error


def cosine_of(result: FusedResult) -> float:
    """Return the score of a passage by meaning, in [0, 1]: its cosine where that is known, whatever found it."""
    if SEMANTIC in result.provenance and result.cosine is None:
        return result.provenance[SEMANTIC].score  # of a provider that tells no cosines
    return result.score if result.cosine is None else min(1.0, max(0.0, result.cosine))
