"""Search by meaning: documents whose embeddings are nearest to the question's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from providers.base import SupportsMetadataFiltering, SupportsSearch
from providers.outbound import deadlines
from registry.embedding.queries import (
    USUAL,
    AskedEmbeddings,
    QueryEmbedding,
    QueryEmbeddings,
    connection_of,
    not_in_time,
)
from registry.embedding.searching import search_by
from retrieval.failures import embedding_errors
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import COSINE, NO_TIME, Oracle, Question, ask_each, to_result
from retrieval.search.smoothing import cosine
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.records import Match, SearchPlan, Vector


class SemanticOracle(Oracle):
    """Finds documents by their embeddings.

    The text is embedded by the connection that a collection's metadata name, else by the usual one, once by
    each; a collection is asked as soon as its connection has answered. It finds nothing where the model cannot read the
    text, and a collection of another model is left out and named. The score of a result is its cosine, 0 for a negative
    one; where a provider gives no vectors it is the match's own (`schemas.scores.score`), which compares only within
    one metric, and there is no cosine.
    """

    name = "semantic"
    measure = COSINE

    def __init__(
        self,
        embeddings: QueryEmbeddings,
        about_to_embed: Callable[[], None] = lambda: None,
    ) -> None:
        self._embeddings = embeddings
        self._about_to_embed = about_to_embed

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsSearch)

    def asked(self, text: str, within_seconds: float | None = None) -> AskedEmbeddings:
        """Return the embeddings of a text, which are made when they are wanted."""

        def make(connection: str) -> QueryEmbedding:
            self._about_to_embed()
            return self._embeddings.embed(connection, text, within_seconds=within_seconds)

        return AskedEmbeddings(make, USUAL, self._embeddings.threads)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        """Return the nearest passages. A collection whose model cannot read the text is left out.

        Cosines of two models cannot be compared: where collections of several are asked, the results of each model are
        brought to the scale of the first, from its least to its greatest. Raises EmbeddingFailureError when the
        question cannot be embedded for any collection, and what the store raises.
        """
        asked = question.embeddings or self.asked(question.text)
        unread: dict[str, str] = {}
        search = question.corpus.able(SupportsSearch)

        plans: dict[str, SearchPlan] = {}
        models: dict[str, str] = {}

        def found_in(collection: CollectionInfo) -> list[OracleResult]:
            with deadlines.within(question.until - time.monotonic()), embedding_errors():
                embedded = asked.of(collection)
            if not embedded.is_readable:
                unread[collection.name] = (
                    f"The model '{embedded.model}' cannot read the question: most of it is unknown to it"
                )
                return []
            models[collection.name] = embedded.model
            matches, plan = search_by(embedded, search, collection, top_k=limit, where=question.where)
            if plan is not None:
                plans[collection.name] = plan
            if not _tells_cosines(question.corpus, collection):
                return [to_result(match.document, collection, match.score) for match in matches]
            cosines = similarities(question.corpus, collection, embedded.vector, matches)
            return [
                to_result(match.document, collection, min(1.0, max(0.0, own)), cosine=own)
                for match, own in zip(matches, cosines, strict=True)
                if own is not None
            ]

        def late(collection: CollectionInfo) -> str:
            if asked.made_of(collection) is not None:
                return NO_TIME
            return not_in_time(connection_of(collection))

        question = replace(question, collections=self._usual_first(question.collections))
        in_turn = asked.as_embedded(question.collections, question.until)
        comparable = partial(on_one_scale, models=models)
        answer = ask_each(question, limit, found_in, comparable, in_turn=in_turn, late=late)
        return replace(answer, left_out={**answer.left_out, **unread}, plans=plans)

    def _usual_first(self, collections: Sequence[CollectionInfo]) -> tuple[CollectionInfo, ...]:
        """Return the collections, those of the usual connection first: its scale is that of all results."""
        return tuple(sorted(collections, key=lambda each: connection_of(each) != USUAL))


def on_one_scale(found: list[OracleResult], models: Mapping[str, str]) -> list[OracleResult]:
    """Return results of several models (by collection) so that their strengths compare: the least and the greatest of
    each model are as strong as those of the first. Results of one model stay as they are."""
    by_model: dict[str, list[OracleResult]] = {}
    for each in found:
        by_model.setdefault(models[each.collection], []).append(each)
    if len(by_model) < 2:
        return found
    ranges = {
        model: (min(each.strength for each in results), max(each.strength for each in results))
        for model, results in by_model.items()
    }
    first, *_ = by_model

    def strength(result: OracleResult, model: str) -> float:
        (least, most), (bottom, top) = ranges[model], ranges[first]
        share = (result.strength - least) / (most - least) if most > least else 1.0
        return bottom + share * (top - bottom)

    return [
        each if model == first else replace(each, measured=strength(each, model))
        for model, results in by_model.items()
        for each in results
    ]


def similarities(
    corpus: OpenCorpus, collection: CollectionInfo, asked: Vector, matches: Sequence[Match]
) -> list[float | None]:
    """Return the cosine of the question and each match in [-1, 1].

    It compares matches across collections of all metrics, because their vectors are of one model. The distance of a
    cosine collection tells it. For other metrics the vectors do, which are read where the matches came without: a
    squared distance or a product does not tell it for vectors of any length. It is None for a match that was deleted
    meanwhile.
    """
    if collection.metric == "cosine":
        return [1.0 - match.distance for match in matches]
    vectors = {match.document.id: match.document.embedding for match in matches}
    missing = [each for each, vector in vectors.items() if vector is None]
    if missing:
        stored = corpus.able(SupportsMetadataFiltering).documents_by_id(collection.name, missing, with_embeddings=True)
        vectors |= {document.id: document.embedding for document in stored}
    return [None if (vector := vectors[match.document.id]) is None else cosine(asked, vector) for match in matches]


def _tells_cosines(corpus: OpenCorpus, collection: CollectionInfo) -> bool:
    return collection.metric == "cosine" or corpus.can(SupportsMetadataFiltering)
