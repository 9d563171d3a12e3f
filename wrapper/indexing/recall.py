"""Measurement of recall: how many of the really nearest documents an index finds, and how widely it is to be searched
for enough of them."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection, Document, Vector
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import countable
from wrapper.catalog.rows import collection_by_key
from wrapper.distances import EQUAL_DISTANCE, exact_distances, possible_nearest, possible_within, vectors_at_once
from wrapper.engine.candidates import first_candidates
from wrapper.engine.client import SEARCH_WIDTHS, EngineClient
from wrapper.indexing.farthest import Farthest

NEAREST = 10
QUERIES = 20
FAR_QUERIES = 10
VECTORS_AT_ONCE = 2_000
CANDIDATES_AT_ONCE = 3_000
SHARES = (1.0, 0.5, 0.1)
"""The shares of the documents that match: without a filter, and with two."""

_STORED, _ASKED, _FAR = "stored", "asked", "far"
"""Where queries come from: documents that chance chose, real questions, and the documents farthest from both."""
_Kind = tuple[float, str]
"""What recall is counted for: the share of the documents that match, and where the queries come from."""
_Near = tuple[float, int]
"""The distance of a document from a query, and its position."""


@dataclass(frozen=True, slots=True)
class Recall:
    """The recall@10 without a filter, and the lower one of the filters; None with no matches to find.

    Both hold where the engine is asked for at least so many `candidates`, None: for as many as a query needs.
    """

    unfiltered: float
    filtered: float | None
    candidates: int | None = None

    @property
    def lowest(self) -> float:
        return self.unfiltered if self.filtered is None else min(self.unfiltered, self.filtered)


@dataclass(frozen=True, slots=True)
class _Ask:
    """Queries to ask the engine: their numbers, how many candidates to ask for, and the shares answered by them."""

    queries: list[int]
    candidates: int
    shares: tuple[float, ...]


class RecallMeasurement:
    """A measurement of one index's recall@10, with the vectors of some of its documents as queries, those of some real
    `questions`, which may lie elsewhere, and those of the documents that lie farthest from all these. Each kind is
    counted apart, and the lowest recall is the result: a graph may find all that is near to most documents, and
    nothing near the few that no path leads to.

    The truth comes from the catalogue's vectors. The engine is asked as the planner asks it. When it finds less than
    `enough`, it is asked again for more candidates, which makes it search more widely, until it finds enough or the
    widest search does not. All of that is done in small steps, so that no writer waits for a pass over all vectors.
    Documents that are written meanwhile count neither way, nor do those `apart` from the index, by position: all of
    these are candidates of every query.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        collection: Collection,
        samples: Sequence[Document],
        *,
        enough: float,
        questions: Sequence[Vector] = (),
        apart: Container[int] = (),
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._enough = enough
        self._apart = apart
        self._collection = collection
        stored = [document.embedding for document in samples if document.embedding is not None]
        asked = [each for each in questions if len(each) == collection.dimension]
        self._queries: Vector = np.stack([*stored, *asked])
        self._kinds = [*(_STORED for _ in stored), *(_ASKED for _ in asked)]
        self._farthest: Farthest | None = Farthest(self._queries, collection.metric, FAR_QUERIES)
        self._nearest: dict[float, list[list[_Near]]] = {}
        self._seen_to, self._last = 0, 0
        self._is_compared = False
        self._widths: deque[int | None] = deque([None, *SEARCH_WIDTHS[1:]])
        self._asks: deque[_Ask] = deque()
        self._width: int | None = None
        self._hits: Counter[_Kind] = Counter()
        self._expected: Counter[_Kind] = Counter()
        self.result: Recall | None = None
        """What was measured last, None when there was nothing to find. It is complete once the steps are done."""

    @property
    def collection(self) -> Collection:
        """The collection as it was when the measurement began."""
        return self._collection

    def step(self) -> bool:
        """Take a small step. Return False when all are done, or when there is nothing left to measure.

        Raises whatever the engine's client raises.
        """
        with self._catalog.read() as transaction:
            collection = self._now(transaction)
            if collection is None:
                self.result = None
                return False
            if not self._is_compared:
                self._look(transaction)
                return not self._is_compared or self._asks_next()
        self._ask(self._asks.popleft())
        if self._asks:
            return True
        self.result = self._measured()
        return self.result is not None and self.result.lowest < self._enough and self._asks_next()

    def _look(self, transaction: Transaction) -> None:
        """Look at some more of the stored vectors: at all of them for the farthest, and again to compare them."""
        limit = min(VECTORS_AT_ONCE, vectors_at_once(self._collection.dimension or 1))
        places, vectors = reads.vectors_after(transaction, self._collection, self._seen_to, limit=limit)
        self._last = self._last or countable.newest_position(transaction, self._collection)
        self._seen_to = places[-1] if places else self._last
        places, vectors = _only(places, vectors, lambda place: place <= self._last and place not in self._apart)
        if self._farthest is not None:
            self._farthest.see(vectors)
        elif places:
            self._compare(places, vectors)
        if self._seen_to < self._last:
            return
        if self._farthest is not None:
            self._ask_of(self._farthest.vectors)
        else:
            self._is_compared = True

    def _ask_of(self, farthest: Vector) -> None:
        """Take the farthest as queries, too, and begin to compare."""
        self._queries = np.concatenate([self._queries, farthest])
        self._kinds += [_FAR for _ in farthest]
        self._nearest = {share: [[] for _ in self._queries] for share in SHARES}
        self._farthest, self._seen_to = None, 0

    def _compare(self, places: list[int], vectors: Vector) -> None:
        for share, nearest in self._nearest.items():
            matching = _matches(places, share)
            farthest = np.array([each[-1][0] if len(each) == NEAREST else np.inf for each in nearest])
            possible = possible_within(self._queries, vectors, self._collection.metric, farthest)
            for number, query in enumerate(self._queries):
                rows = np.flatnonzero(possible[number] & matching)
                if len(rows):
                    found = self._nearest_of(query, [places[row] for row in rows], vectors[rows], share)
                    nearest[number] = heapq.nsmallest(NEAREST, [*nearest[number], *found])

    def _nearest_of(self, query: Vector, places: Sequence[int], vectors: Vector, share: float) -> list[_Near]:
        """Return the nearest of the documents that match the filter of this share, and all that are as near."""
        matching = np.flatnonzero(_matches(places, share))
        few = matching[possible_nearest(query, vectors[matching], self._collection.metric, NEAREST)]
        distances = exact_distances(query, vectors[few], self._collection.metric).tolist()
        return list(zip(distances, (places[row] for row in few), strict=True))

    def _asks_next(self) -> bool:
        """Prepare to ask for the next number of candidates. Return False when there is none, or nothing to find."""
        count = self._collection.count
        asked_for_all = self.result is not None and (self.result.candidates or 0) >= count
        if not self._seen_to or not self._widths or asked_for_all:
            return False
        width = self._widths.popleft()
        shares_by_number: dict[int, tuple[float, ...]] = {}
        for share in SHARES:
            number = first_candidates(count, max(1, round(share * count)), NEAREST, at_least=width or 0)
            shares_by_number[number] = (*shares_by_number.get(number, ()), share)
        for number, shares in shares_by_number.items():
            at_once = max(1, CANDIDATES_AT_ONCE // number)
            for start in range(0, len(self._queries), at_once):
                queries = list(range(len(self._queries)))[start : start + at_once]
                self._asks.append(_Ask(queries, number, shares))
        self._hits.clear()
        self._expected.clear()
        self._width = width
        return True

    def _ask(self, ask: _Ask) -> None:
        """Ask the engine, and count what it finds. What is as near as the farthest that is wanted counts, too."""
        assert self._collection.engine_id is not None
        vectors = self._queries[ask.queries]
        proposed = self._engine.query(self._collection.engine_id, vectors, ask.candidates)
        with self._catalog.read() as transaction:
            collection = self._now(transaction)
            if collection is None:
                return
            for number, ids in zip(ask.queries, proposed, strict=True):
                places, vectors = reads.vectors_of(transaction, collection, sorted(ids))
                known = {place for share in ask.shares for _, place in self._nearest[share][number]}
                same = countable.unchanged(transaction, self._collection, sorted(known.union(places)))
                for share in ask.shares:
                    nearest = [each for each in self._nearest[share][number] if each[1] in same]
                    if np.count_nonzero(_matches(places, share)) < len(nearest):
                        continue  # the planner would see that, and ask for more or compute
                    found = self._nearest_of(self._queries[number], places, vectors, share)
                    # What was written meanwhile may have taken the place of what was among the nearest.
                    written = (each for each in found if each[1] not in same)
                    merged = heapq.nsmallest(NEAREST, [*nearest, *written])
                    wanted = [distance for distance, place in merged if place in same]
                    if wanted:
                        as_near = sum(each <= wanted[-1] + EQUAL_DISTANCE for each, place in found if place in same)
                        kind = (share, self._kinds[number])
                        self._hits[kind] += min(len(wanted), as_near)
                        self._expected[kind] += len(wanted)

    def _measured(self) -> Recall | None:
        recalls = {kind: self._hits[kind] / number for kind, number in self._expected.items()}
        unfiltered = min((recall for (share, _), recall in recalls.items() if share == 1.0), default=None)
        if unfiltered is None:
            return None
        filtered = min((recall for (share, _), recall in recalls.items() if share < 1.0), default=None)
        return Recall(unfiltered, filtered, self._width)

    def _now(self, transaction: Transaction) -> Collection | None:
        """Return the collection in its present state, or None when it no longer has the index being measured."""
        now = collection_by_key(transaction, self._collection.key)
        same = now is not None and (now.engine_id, now.dimension) == (
            self._collection.engine_id,
            self._collection.dimension,
        )
        return now if same else None


def _matches(places: Sequence[int], share: float) -> NDArray[np.bool_]:
    """Return which of the documents match the filter of this share. It has nothing to do with their vectors."""
    scattered = np.asarray(places, dtype=np.uint64) * np.uint64(0x9E3779B1) % np.uint64(2**32)
    return scattered < share * 2**32


def _only(places: list[int], vectors: Vector, is_wanted: Callable[[int], bool]) -> tuple[list[int], Vector]:
    """Return the positions that are wanted, and their vectors."""
    rows = [row for row, place in enumerate(places) if is_wanted(place)]
    return [places[row] for row in rows], vectors[rows]
