"""Vector queries: several plans, one meaning.

The engine only proposes candidates; the catalogue decides the answer. One snapshot says which candidates exist and
match, and their distances are computed exactly from the stored vectors. Documents that the engine has not been told of
yet are candidates too, including those written while it was asked. So an answer never misses an acknowledged write, nor
one that its revision has.

- `memory`: the collection is asked so often that its vectors are held as codes, which tell what can be near. It goes
  before the index, which may miss neighbours, as long as it takes no longer than an exact answer may.
- `exact`: reading the vectors of the few matches costs less than asking the engine, or so little that it is not worth
  the neighbours that a graph misses; ten times as much is read until the index has been measured, and everything when
  it was found to miss too many.
- `index`: no filter, the engine's nearest.
- `index+filter`: many matches; the engine is asked for so many neighbours that enough of them should match, and for
  more when they do not.
- `scan`: exact over everything, when the engine is away or the collection's index is not complete.
- `empty`: nothing can match.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import structlog

from schemas.errors import UnavailableError
from schemas.observing import spans
from schemas.records import Collection, GatherSpec, Group, Match, Vector
from schemas.scores import score
from schemas.storage.index_reports import IndexReport
from schemas.storage.recall import LEAST_RECALL
from schemas.where import EVERYTHING, HasId, Not, Where, all_of
from wrapper.catalog import grouping, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.filters import any_matches
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.index_state import reports
from wrapper.catalog.rows import find_collection
from wrapper.distances import exact_distances, possible_nearest
from wrapper.embedding_checks import check_question
from wrapper.engine.candidates import MAX_CANDIDATES, first_candidates
from wrapper.querying.asked_vectors import AskedVectors
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.kept_codes import OvertakenError
from wrapper.querying.near_documents import middle_of
from wrapper.querying.waiting_writes import Waiting, waiting_of

log = structlog.get_logger(__name__)

DOUBTED = 10
"""The factor by which an exact answer may take longer while the index has not been measured."""
QUERIES_FOR_EXACTNESS = 10
"""After so many queries that the index would answer, which may miss neighbours, a collection is read into memory."""
SHARE_TRUSTED = 2 / 3
"""With a filter, enough documents have to match among this share of what the index proposes, the nearest."""
MOST_ATTEMPTS = 3
"""The most times that the engine, or memory, is asked while writes keep passing it by."""
NO_VECTOR: Vector = np.empty(0, dtype=np.float32)


class VectorIndex(Protocol):
    """The part of the engine that the planner needs."""

    def is_ready(self) -> bool:
        """Return False while the engine is known not to answer."""

    def nearest(self, engine_id: str, embedding: Vector, n_results: int) -> list[str]:
        """Return the ids of the nearest documents, nearest first.

        Raises UnavailableError when the engine does not answer.
        """


@dataclass(frozen=True, slots=True)
class _Question:
    """`near` are ids of documents, whose middle is asked for in place of an embedding."""

    collection: str
    embedding: Vector
    near: tuple[str, ...]
    top_k: int
    where: Where
    max_distance: float | None
    gather: GatherSpec | None
    with_embeddings: bool
    seen: Where


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a query.

    It has the matches, nearest first (equal distances by insertion), their groups when requested, the collection in the
    same snapshot, the plan taken, and of how many documents the distance was `compared`, None for who may not know.
    `recall` is the recall@10 of the index as it was last measured for such a query; None for exact answers, and before
    the first measurement.
    """

    matches: list[Match]
    collection: Collection
    plan: str
    groups: list[Group] | None = None
    unknown_fields: tuple[str, ...] = ()
    compared: int | None = 0
    recall: float | None = None


class Planner:
    """The choice and execution of plans.

    `held` are the codes in memory; without it none are held. `documents` are those in memory. An
    answer that can be computed exactly within `exact_ms` is, even where the index is quicker. An index whose recall@10
    is below `least_recall` is not asked, however long that takes; what it answers is noted in `asked`.
    """

    def __init__(
        self,
        catalog: Catalog,
        index: VectorIndex,
        costs: CostModel | None = None,
        held: HeldVectors | None = None,
        exact_ms: float = 0.0,
        least_recall: float = LEAST_RECALL,
        documents: HeldDocuments | None = None,
        asked: AskedVectors | None = None,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._costs = costs or CostModel()
        self._held = held
        self._exact_ms = exact_ms
        self._least_recall = least_recall
        self._documents = documents or HeldDocuments()
        self._asked = asked or AskedVectors()

    @spans.spanned("plan")
    def query(
        self,
        name: str,
        embedding: Vector | None = None,
        *,
        near: Sequence[str] = (),
        top_k: int,
        where: Where = EVERYTHING,
        max_distance: float | None = None,
        gather_by: GatherSpec | None = None,
        with_embeddings: bool = False,
        seen: Where = EVERYTHING,
    ) -> Found:
        """Return the `top_k` matching documents nearest to `embedding` (dimension,) or, without one, to the middle of
        the documents with the ids `near`, which are no answer themselves; as if there were only those that match
        `seen`.

        Raises CollectionNotFoundError when there is no such collection, DocumentNotFoundError for `near`, and
        InvalidInputError when the dimension is not the collection's, a component is not finite, or the embedding has no
        direction where directions are compared.
        """
        where = all_of(seen, where)
        if embedding is None:
            where = all_of(where, Not(HasId(tuple(near))))
            embedding = NO_VECTOR
        question = _Question(name, embedding, tuple(near), top_k, where, max_distance, gather_by, with_embeddings, seen)
        for _ in range(MOST_ATTEMPTS):
            with suppress(OvertakenError):
                return self._answered(question)
        return self._answered(question, from_memory=False)

    def _answered(self, question: _Question, *, from_memory: bool = True) -> Found:
        """Answer a question. Raises OvertakenError when the vectors in memory are of a later revision already."""
        where, seen = question.where, question.seen
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, question.collection)
            if question.near:
                middle = middle_of(transaction, collection, question.near, seen)
                question = replace(question, embedding=middle)
            embedding = question.embedding
            if seen != EVERYTHING and not any_matches(transaction, collection.key, seen):
                # A collection without documents takes questions of any dimension.
                return self._found(transaction, collection, question, [], NO_VECTOR, "empty")
            check_question(collection, embedding)
            matching = transaction.dialect.matches.count(transaction, collection, where)
            if matching == 0:
                return self._found(transaction, collection, question, [], NO_VECTOR, "empty")
            exact_cost = self._costs.exact(matching, len(embedding))
            is_indexed = self._is_indexed(collection)
            report = reports.find(transaction, collection.key) if is_indexed else reports.NOTHING_KNOWN
            asks_index = is_indexed and exact_cost > self._patience_ms(report)
            fetch = first_candidates(collection.count, matching, question.top_k, at_least=report.candidates or 0)
            if from_memory:
                in_memory = self._from_memory(
                    question, transaction, collection, matching, fetch if asks_index else None
                )
                if in_memory is not None:
                    return in_memory
            waiting = waiting_of(transaction, collection) if asks_index else None
            if waiting is None:
                plan = "exact" if is_indexed and not asks_index else "scan"
                return self._computed(transaction, collection, question, plan)
            fetch = min(fetch + len(waiting.ids), max(collection.count, question.top_k), MAX_CANDIDATES)
            if (where != EVERYTHING or report.candidates) and exact_cost <= self._costs.index(fetch):
                return self._computed(transaction, collection, question, "exact")
        plan = "index" if where == EVERYTHING else "index+filter"
        try:
            found = self._from_index(question, collection, plan, matching, waiting, fetch, exact_cost)
        except UnavailableError as error:
            reason = error.message
            log.warning("engine did not answer, scanning the catalogue", collection=question.collection, reason=reason)
            return self._exactly(question, "scan")
        if found is None:
            return self._exactly(question, "exact" if where != EVERYTHING else "scan")
        self._asked.note(collection.key, question.embedding)
        return replace(found, recall=report.recall_at_10 if where == EVERYTHING else report.filtered_recall_at_10)

    def _patience_ms(self, report: IndexReport) -> float:
        """Return how long an exact answer may take before the index is asked: for ever, where it misses too many."""
        recall = report.lowest_recall
        if recall is None:
            return self._exact_ms * DOUBTED
        return self._exact_ms if recall >= self._least_recall else math.inf

    def _from_memory(
        self, question: _Question, transaction: Transaction, collection: Collection, matching: int, fetch: int | None
    ) -> Found | None:
        """Answer from the vectors in memory. Returns None when they are not held or are not the cheapest way.

        `fetch` is how many candidates the index would be asked for otherwise, None when it is not asked.
        """
        query, filtered = question.embedding, question.where != EVERYTHING
        if self._held is None or not self._held.fits(collection):
            return None
        here = self._costs.memory(collection.count, len(query), matching if filtered else None, question.top_k)
        elsewhere = self._costs.exact(matching, len(query))
        if fetch is not None:
            from_index = self._costs.index(fetch)
            elsewhere = min(elsewhere, from_index) if filtered else from_index
        reading, saves = self._costs.reading(collection.count, len(query)), elsewhere - here
        if fetch is not None and here <= self._exact_ms:
            saves = max(saves, reading / QUERIES_FOR_EXACTNESS)
        if saves <= 0.0:
            return None
        held = self._held.of(transaction, collection, saves_ms=saves, reading_ms=reading)
        if held is None:
            return None
        code = held.base.codes.of_query(query)
        if code is None:
            return None
        matches = transaction.dialect.matches
        rows = held.rows_of(matches.of(transaction, collection, question.where)) if filtered else None
        near = self._held.nearest(held, code, question.top_k, rows)
        if self._costs.exact(len(near), len(query)) > max(elsewhere, self._exact_ms * DOUBTED):
            # Too many documents are as near as codes can tell: a dense cluster, or equal vectors.
            return None
        positions, vectors = reads.vectors_at(transaction, collection, held.positions_of(near))
        compared = collection.count if rows is None else len(rows)
        return self._found(transaction, collection, question, positions, vectors, "memory", compared=compared)

    def _is_indexed(self, collection: Collection) -> bool:
        return collection.engine_id is not None and collection.index_state == "ready" and self._index.is_ready()

    def _from_index(
        self,
        question: _Question,
        collection: Collection,
        plan: str,
        matching: int,
        waiting: Waiting,
        fetch: int,
        exact_cost: float,
    ) -> Found | None:
        """Answer from the engine's candidates.

        Returns None when the index has not enough to propose, when asking it for more would cost more than computing,
        when writes keep passing it by, or when the documents whose middle is asked for have changed.
        """
        for _ in range(MOST_ATTEMPTS):
            while True:
                assert collection.engine_id is not None
                proposed = self._index.nearest(collection.engine_id, question.embedding, fetch)
                with self._catalog.read() as transaction:
                    now = find_collection(transaction, question.collection)
                    check_question(now, question.embedding)
                    if question.near and not self._is_middle(transaction, now, question):
                        return None
                    waiting_now = waiting_of(transaction, now)
                    if waiting_now is None or (now.key, now.engine_id) != (collection.key, collection.engine_id):
                        return None
                    if now.revision - collection.revision != len(waiting_now.entries - waiting.entries):
                        break
                    # Waiting documents may be far away: they never stand in for what the index has not proposed.
                    unsettled = {*waiting.ids, *waiting_now.ids}
                    # The graph misses most among the farthest of what it proposes: what it has there is no answer yet.
                    all_count = question.where == EVERYTHING or len(proposed) < fetch
                    near = len(proposed) if all_count else math.ceil(SHARE_TRUSTED * len(proposed))
                    parts = [set(proposed[:near]) - unsettled, set(proposed[near:]) - unsettled, unsettled]
                    found = [reads.vectors_of(transaction, now, sorted(part), where=question.where) for part in parts]
                    positions = [position for part, _ in found for position in part]
                    vectors = np.concatenate([part for _, part in found])
                    if len(found[0][0]) >= question.top_k or len(positions) >= matching:
                        return self._found(transaction, now, question, positions, vectors, plan)
                if len(proposed) < fetch:
                    return None
                fetch *= 4
                if fetch > MAX_CANDIDATES or self._costs.index(fetch) > exact_cost:
                    return None
            # The engine already has a write that the first snapshot did not see, maybe since it answered.
            collection, waiting = now, waiting_now
        return None

    def _exactly(self, question: _Question, plan: str) -> Found:
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, question.collection)
            if question.near:
                question = replace(question, embedding=middle_of(transaction, collection, question.near, question.seen))
            check_question(collection, question.embedding)
            return self._computed(transaction, collection, question, plan)

    def _is_middle(self, transaction: Transaction, collection: Collection, question: _Question) -> bool:
        """Return whether what was asked for is the middle of the documents as they are in this snapshot, too."""
        middle = middle_of(transaction, collection, question.near, question.seen)
        return np.array_equal(middle, question.embedding)

    def _computed(self, transaction: Transaction, collection: Collection, question: _Question, plan: str) -> Found:
        """Return the answer from the vectors of the catalogue, block by block."""
        nearest: list[tuple[float, int]] = []
        compared = 0
        for positions, vectors in reads.vectors(transaction, collection, question.where):
            compared += len(positions)
            best = possible_nearest(question.embedding, vectors, collection.metric, question.top_k)
            distances = exact_distances(question.embedding, vectors[best], collection.metric)
            found = zip(distances.tolist(), (positions[index] for index in best), strict=True)
            nearest = heapq.nsmallest(question.top_k, [*nearest, *found])
        places = [position for _, position in nearest]
        positions, vectors = reads.vectors_at(transaction, collection, places)
        return self._found(transaction, collection, question, positions, vectors, plan, compared=compared)

    def _found(
        self,
        transaction: Transaction,
        collection: Collection,
        question: _Question,
        positions: list[int],
        vectors: Vector,
        plan: str,
        *,
        compared: int | None = None,
    ) -> Found:
        """Return the nearest of the candidates with their documents; equal distances come in the order of insertion."""
        spans.note(plan=plan)
        distances: list[float] = []
        if positions:
            distances = exact_distances(question.embedding, vectors, collection.metric).tolist()
        order = sorted(range(len(positions)), key=lambda index: (distances[index], positions[index]))[: question.top_k]
        if question.max_distance is not None:
            order = [index for index in order if distances[index] <= question.max_distance]
        documents = self._documents.at(transaction, collection, [positions[index] for index in order])
        matches = []
        for index in order:
            document = documents[positions[index]]
            if question.with_embeddings:
                document = document.with_embedding(vectors[index])
            matches.append(Match(document, distances[index], score(distances[index], collection.metric)))
        groups = None
        unknown: tuple[str, ...] = ()
        if question.gather is not None:
            hits = [match.document for match in matches]
            nearness = {match.document.id: match.distance for match in matches}
            groups = grouping.gather(transaction, collection, hits, question.gather, nearness, seen=question.seen)
            unknown = grouping.unknown_fields(transaction, collection, question.gather, question.seen)
        return Found(matches, collection, plan, groups, unknown, len(positions) if compared is None else compared)
