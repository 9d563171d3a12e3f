"""By meaning: the documents whose embeddings are nearest to the question's."""

from __future__ import annotations

from providers.base import SupportsSearch
from registry.query_embeddings import QueryEmbedding, QueryEmbeddings
from retrieval.corpus import OpenCorpus
from retrieval.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.records import Match
from schemas.searched import OracleAnswer, OracleResult


class SemanticOracle(Oracle):
    """`embedding_connection` is the one that the collections were filled with; a collection of another model is left
    out and named. The text is embedded once for all collections."""

    name = "semantic"

    def __init__(self, embeddings: QueryEmbeddings, embedding_connection: str = "default") -> None:
        self._embeddings = embeddings
        self._embedding_connection = embedding_connection

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        return self.nearest(self.embed(question.text), question, limit)

    def embed(self, text: str, within_seconds: float | None = None) -> QueryEmbedding:
        return self._embeddings.embed(self._embedding_connection, text, within_seconds=within_seconds)

    def nearest(self, embedded: QueryEmbedding, question: Question, limit: int) -> OracleAnswer:
        """`query` for a text that is embedded already."""
        search = question.corpus.able(SupportsSearch)

        def found_in(collection: CollectionInfo) -> list[OracleResult]:
            embedded.check_fits(collection)
            matches = search.search(collection.name, embedded.vector, top_k=limit, where=question.where)
            return [to_result(match.document, collection, similarity(match, collection.metric)) for match in matches]

        return ask_each(question, limit, found_in)


def similarity(match: Match, metric: str) -> float:
    """In [0, 1]. cosine: the cosine itself, below 0 counts as 0. l2 and ip have no such bounds: there it is the
    provider's score (`schemas.scores.score`), which compares with others of the same metric only."""
    return min(1.0, max(0.0, 1.0 - match.distance)) if metric == "cosine" else match.score
