"""Search by meaning: documents whose embeddings are nearest to the question's; and among the notes of sessions, without
those that another one has replaced."""

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
from schemas.access.owners import EVERYTHING_SEEN, OPEN, Asker
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.records import Match, SearchPlan, Vector
from schemas.where import EVERYTHING, Equals, Exists, Not, Or, Where, all_of


class SemanticOracle(Oracle):
    """Finds documents by their embeddings.

    The text is embedded by the connection that a collection's metadata name, else by the usual one, once by each; a
    collection is asked as soon as its connection has answered. It finds nothing where the model cannot read the
    text, and a collection of another model is left out and named. The score of a result is its cosine, 0 for a negative
    one; where a provider gives no vectors it is the match's own (`schemas.scores.score`), which compares only within
    one metric, and there is no cosine.
    """

    name = "semantic"
    measure = COSINE

    def __init__(self, embeddings: QueryEmbeddings, about_to_embed: Callable[[], None] = lambda: None) -> None:
        self._embeddings = embeddings
        self._about_to_embed = about_to_embed

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsSearch)

    def asked(self, text: str, within_seconds: float | None = None) -> AskedEmbeddings:
        """Return the embeddings of a text, which are made when they are wanted."""

        def make(connection: str) -> QueryEmbedding:
            self._about_to_embed()
            return self._embeddings.embed(connection, text, within_seconds=within_seconds)

        return AskedEmbeddings(make, self._embeddings.threads)

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
            return _results(question.corpus, collection, embedded.vector, matches)

        def late(collection: CollectionInfo) -> str:
            if asked.made_of(collection) is not None:
                return NO_TIME
            return not_in_time(connection_of(collection))

        # The usual connection's first: its scale is that of all results.
        in_order = sorted(question.collections, key=lambda each: connection_of(each) != USUAL)
        question = replace(question, collections=tuple(in_order))
        in_turn = asked.as_embedded(question.collections, question.until)
        comparable = partial(on_one_scale, models=models)
        answer = ask_each(question, limit, found_in, comparable, in_turn=in_turn, late=late)
        return replace(answer, left_out={**answer.left_out, **unread}, plans=plans)


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


def _results(
    corpus: OpenCorpus, collection: CollectionInfo, asked: Vector, matches: Sequence[Match]
) -> list[OracleResult]:
    """Return matches as results, with the cosine of the question and each.

    It compares matches across collections of all metrics, because their vectors are of one model. The distance of a
    cosine collection tells it. For other metrics the vectors do, which are read where the matches came without: a
    squared distance or a product does not tell it for vectors of any length. Matches that were deleted meanwhile are
    left out.
    """
    if collection.metric == "cosine":
        known: list[float | None] = [1.0 - match.distance for match in matches]
    elif corpus.can(SupportsMetadataFiltering):
        vectors = {match.document.id: match.document.embedding for match in matches}
        missing = [each for each, vector in vectors.items() if vector is None]
        reads = corpus.able(SupportsMetadataFiltering)
        stored = reads.documents_by_id(collection.name, missing, with_embeddings=True) if missing else []
        vectors |= {document.id: document.embedding for document in stored}
        in_turn = (vectors[match.document.id] for match in matches)
        known = [None if vector is None else cosine(asked, vector) for vector in in_turn]
    else:
        return [to_result(match.document, collection, match.score) for match in matches]
    return [
        to_result(match.document, collection, min(1.0, max(0.0, own)), cosine=own)
        for match, own in zip(matches, known, strict=True)
        if own is not None
    ]


SUPERSEDED_BY = "superseded_by"
"""The metadata field of a replaced note with the id of the note that replaced it."""
OWNER = "owner"
"""The metadata field with a note's owner. Notes of the open service lack it."""
AUDIENCE = "audience"
"""The metadata field with the audience of a note of a shared session."""


def current_notes(asker: Asker) -> Where:
    """Return the filter of the notes that the asker sees and no other note has replaced."""
    return all_of(Not(Exists(SUPERSEDED_BY)), seen_notes(asker))


def notes_of(owner: str) -> Where:
    """Return the filter of one owner's notes."""
    return Not(Exists(OWNER)) if owner == OPEN else Equals(OWNER, owner)


def seen_notes(asker: Asker) -> Where:
    """Return `Asker.sees` as a filter of notes."""
    if asker.sees_all:
        return EVERYTHING
    own = notes_of(asker.owner)
    shared = Exists(AUDIENCE) if asker.reach == EVERYTHING_SEEN else Equals(AUDIENCE, asker.reach)
    return Or((own, shared))


class PersonaOracle(SemanticOracle):
    """Asks the collection of notes, whatever collections a question names."""

    name = "persona"

    def __init__(self, embeddings: QueryEmbeddings, notes_collection: str) -> None:
        super().__init__(embeddings)
        self.own_collections = (notes_collection,)

    def is_available(self, corpus: OpenCorpus) -> bool:
        return super().is_available(corpus) and any(each.count != 0 for each in corpus.existing(self.own_collections))

    def query(self, question: Question, limit: int) -> OracleAnswer:
        notes = tuple(question.corpus.existing(self.own_collections))
        # Filtered in the query, not afterwards: replaced notes must not take the place of current ones.
        where = all_of(question.where, current_notes(question.asker))
        return super().query(replace(question, collections=notes, where=where), limit)
