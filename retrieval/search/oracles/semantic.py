"""Search by meaning: documents whose embeddings are nearest to the question's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from providers.base import SupportsMetadataFiltering, SupportsSearch, TellsPlans
from registry.embedding.queries import AskedEmbeddings, QueryEmbeddings, connection_of
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.errors import RagError
from schemas.records import Match, SearchPlan, Vector


class SemanticOracle(Oracle):
    """Finds documents by their embeddings.

    The text is embedded by the connection that a collection's metadata name, else by `embedding_connection`, once by
    each. It finds nothing where the model cannot read it, and a collection of another model is left out and named. The
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
        asked = question.embeddings or self.asked(question.text)
        unread = {}
        for collection in self._usual_first(question.collections):
            with suppress(RagError):  # it is raised where the collection is asked
                embedded = asked.of(collection)
                if not embedded.is_readable:
                    unread[collection.name] = (
                        f"The model '{embedded.model}' cannot read the question: its script is not one of the model's"
                    )
        read = tuple(each for each in question.collections if each.name not in unread)
        if unread and not read:
            return OracleAnswer([], unread)
        answer = self.nearest(asked, replace(question, collections=read), limit)
        return replace(answer, left_out={**answer.left_out, **unread}) if unread else answer

    def asked(self, text: str, within_seconds: float | None = None) -> AskedEmbeddings:
        """Return the embeddings of a text, which are made when they are wanted."""
        make = partial(self._embeddings.embed, text=text, within_seconds=within_seconds)
        return AskedEmbeddings(make, self._embedding_connection)

    def nearest(self, asked: AskedEmbeddings, question: Question, limit: int) -> OracleAnswer:
        """Answer as `query` does, also where the model cannot read the text.

        Cosines of two models cannot be compared: where collections of several are asked, the results of each model are
        brought to the scale of the first, from its least to its greatest.
        """
        search = question.corpus.able(SupportsSearch)

        plans: dict[str, SearchPlan] = {}
        models: dict[str, str] = {}

        def found_in(collection: CollectionInfo) -> list[OracleResult]:
            embedded = asked.of(collection)
            embedded.check_fits(collection)
            models[collection.name] = embedded.model
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

        question = replace(question, collections=self._usual_first(question.collections))
        return replace(ask_each(question, limit, found_in, lambda found: on_one_scale(found, models)), plans=plans)

    def _usual_first(self, collections: Sequence[CollectionInfo]) -> tuple[CollectionInfo, ...]:
        """Return the collections so that those of the usual connection wait for no other."""
        usual = self._embedding_connection
        return tuple(sorted(collections, key=lambda each: connection_of(each, usual) != usual))


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
