"""Search by meaning: documents whose embeddings are nearest to the question's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from providers.base import SupportsMetadataFiltering, SupportsSearch, TellsPlans
from registry.embedding.queries import QueryEmbedding, QueryEmbeddings
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.records import Match, SearchPlan, Vector


class SemanticOracle(Oracle):
    """Finds documents by their embeddings.

    `embedding_connection` is the one that the collections were filled with. A collection of another model is left out
    and named. The text is embedded once for all collections, and finds nothing where the model cannot read it. The
    score of a result is its cosine, 0 for a negative one; where a provider gives no vectors it is the match's own
    (`schemas.scores.score`), which compares only within one metric, and there is no cosine.
    """

    name = "semantic"
    measure = "cosine"

    def __init__(self, embeddings: QueryEmbeddings, embedding_connection: str = "default") -> None:
        self._embeddings = embeddings
        self._embedding_connection = embedding_connection

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        shared = question.embedding
        embedded = self.embed(question.text) if shared is None else shared.get()
        if not embedded.is_readable:
            reason = f"The model '{embedded.model}' cannot read the question: its script is not one of the model's"
            return OracleAnswer([], {collection.name: reason for collection in question.collections})
        return self.nearest(embedded, question, limit)

    def embed(self, text: str, within_seconds: float | None = None) -> QueryEmbedding:
        return self._embeddings.embed(self._embedding_connection, text, within_seconds=within_seconds)

    def nearest(self, embedded: QueryEmbedding, question: Question, limit: int) -> OracleAnswer:
        """Answer as `query` does, for a text that is embedded already."""
        search = question.corpus.able(SupportsSearch)

        plans: dict[str, SearchPlan] = {}

        def found_in(collection: CollectionInfo) -> list[OracleResult]:
            embedded.check_fits(collection)
            if isinstance(search, TellsPlans):
                planned = search.planned_search(collection.name, embedded.vector, top_k=limit, where=question.where)
                matches, plans[collection.name] = planned.matches, planned.plan
            else:
                matches = search.search(collection.name, embedded.vector, top_k=limit, where=question.where)
            if not _tells_cosines(question.corpus, collection):
                return [to_result(match.document, collection, match.score) for match in matches]
            cosines = similarities(question.corpus, collection, embedded.vector, matches)
            return [
                to_result(match.document, collection, _bounded(cosine), cosine=cosine)
                for match, cosine in zip(matches, cosines, strict=True)
                if cosine is not None
            ]

        return replace(ask_each(question, limit, found_in), plans=plans)


def similarities(
    corpus: OpenCorpus, collection: CollectionInfo, asked: Vector, matches: Sequence[Match]
) -> list[float | None]:
    """Return the cosine of the question and each match in [-1, 1].

    It compares matches across collections of all metrics, because their vectors are of one model. The distance of a
    cosine collection tells it. For other metrics the vectors are read: a squared distance or a product does not tell it
    for vectors of any length. It is None for a match that was deleted meanwhile.
    """
    if collection.metric == "cosine":
        return [1.0 - match.distance for match in matches]
    ids = [match.document.id for match in matches]
    if not ids:
        return []
    stored = corpus.able(SupportsMetadataFiltering).documents_by_id(collection.name, ids, with_embeddings=True)
    vectors = {document.id: document.embedding for document in stored}
    return [None if (vector := vectors.get(each)) is None else _cosine(asked, vector) for each in ids]


def _cosine(one: Vector, other: Vector) -> float:
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


def _tells_cosines(corpus: OpenCorpus, collection: CollectionInfo) -> bool:
    return collection.metric == "cosine" or corpus.can(SupportsMetadataFiltering)


def _bounded(cosine: float) -> float:
    return min(1.0, max(0.0, cosine))
