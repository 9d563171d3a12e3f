"""The codes of one collection as a process keeps them: those of a base, and of what was written since beside it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schemas.records import Collection, Vector
from wrapper.catalog import reads
from wrapper.catalog.changes import feed
from wrapper.catalog.contract import Transaction
from wrapper.querying.base_codes import BaseCodes, Positions
from wrapper.querying.codes import Codes, Encoder, Estimates, Floats, QueryCode, Rows, empty_arrays, multiply

LEAST_GROWTH = 4_096
PARTS_OF_BASE = 8
"""What is beside the base may become an eighth of it, and at least `LEAST_GROWTH` documents."""
PARTS_LEFT = 2
"""Half of a base may be left, and at least `LEAST_GROWTH` documents. When more is, codes take twice the memory and the
time that they need, and a new base is made of fewer documents than were deleted for it."""
MOST_TIMES_OUTGROWN = 4
"""With so many times as much beside it, a base is given up."""
WAIT_SECONDS = 0.1
"""How long a query waits for another thread that brings codes to a revision."""
MOST_STATES = 8
"""The revisions that can be answered for: those of snapshots that queries may still have."""
ROW_BYTES = 1 + MOST_STATES
"""What is kept of each row of a base beside it: whether it counts, now and at each of these revisions."""
LATER_BYTES = 128 + 16 * MOST_STATES
"""What is kept of each document written since beside its code: its place in a dict, and in the order of positions at
each of these revisions."""
FIRST_COMPARED, FIRST_OF_EACH = 256, 8
"""How many documents of the nearest leaves are compared to learn how near others have to be: so many, or so many times
as are wanted."""
SHARE_IN_LEAVES = 0.2
"""Of more than this share of a collection, the codes of all are compared at once."""
MOST_REFINED = 16_384
"""Of so many documents fine codes are compared."""
NO_ESTIMATES = Estimates(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.float32))


class OvertakenError(Exception):
    """The codes are of a later revision than the snapshot: one that is taken now can be answered."""


class BehindError(Exception):
    """More was written since than may be read now."""


class OutgrownError(Exception):
    """So much was written since that a new base costs less, or not all of it is known."""


@dataclass(frozen=True, eq=False)
class Held:
    """The codes of a collection at a revision. A document's row is that of the base or, counted on from its end, one of
    `later`, what was written since. positions: of later (m,); gone: the rows of both that do not count any more."""

    revision: int
    base: BaseCodes
    later: Codes
    positions: Positions
    gone: Rows

    @cached_property
    def _sorted(self) -> tuple[Rows, Positions]:
        """The rows of later that count, by position, and these positions."""
        counts = np.ones(len(self.positions), dtype=np.bool_)
        counts[self.gone[self.gone >= len(self.base.positions)] - len(self.base.positions)] = False
        rows = np.flatnonzero(counts)
        order = rows[np.argsort(self.positions[rows])]
        return order, self.positions[order]

    @cached_property
    def _counts(self) -> NDArray[np.bool_]:
        """Whether each row of the base counts."""
        counts = np.ones(len(self.base.positions), dtype=np.bool_)
        counts[self.gone[self.gone < len(counts)]] = False
        return counts

    def rows_of(self, positions: Positions) -> Rows:
        """Return the rows of documents, given by their positions at the same revision in ascending order."""
        rows = self.base.rows_of(positions)
        order, later = self._sorted
        if len(order) and len(positions):
            places = np.minimum(np.searchsorted(positions, later), len(positions) - 1)
            is_asked = positions[places] == later
            rows[places[is_asked]] = order[is_asked] + len(self.base.positions)
        return rows

    def positions_of(self, rows: Rows) -> list[int]:
        """Return the positions of documents, given by their rows."""
        here, there = self._parts(rows)
        positions: list[int] = np.concatenate([self.base.positions[here], self.positions[there]]).tolist()
        return positions

    def nearest(self, query: QueryCode, top_k: int, rows: Rows) -> Rows:
        """Return which of the rows (n,) can be among their `top_k` nearest. Equal vectors are all of these or none."""
        here, there = self._parts(rows)
        base = self.base.codes
        estimates = base.estimated(query, multiply(base.codes[here], [query.code])[0], here)
        estimates = _joined([estimates, self._of_later(query, there)])
        found = np.concatenate([here, there + len(base)])[estimates.possible(top_k, self._slack(query))]
        return self._refined(query, top_k, found)

    def nearest_of_all(
        self,
        query: QueryCode,
        top_k: int,
        products: Callable[[], Floats],
        rows: Rows | None = None,
        *,
        picks: bool = False,
    ) -> Rows:
        """Return the same of all rows, or of many, where it is quicker to look at all. `products` returns those of the
        whole base with the query's code. Where leaves tell nothing, a query that `picks` looks at its rows alone."""
        base = self.base.codes
        counts, there = self._counts, np.arange(len(self.later))
        if rows is not None:
            here, there = self._parts(rows)
            counts = np.zeros(len(base), dtype=np.bool_)
            counts[here] = True
        elif len(self.gone):
            there = np.sort(self._sorted[0])
        later = self._of_later(query, there)
        few = self._in_leaves(query, top_k, counts, later)
        if few is not None:
            here, estimates = few
            found = np.concatenate([here, there + len(base)])
            return self._refined(query, top_k, found[_joined([estimates, later]).possible(top_k, self._slack(query))])
        if picks and rows is not None:
            return self.nearest(query, top_k, rows)
        estimates = base.estimated(query, products())
        if rows is not None or len(self.gone):
            estimates.nearness[~counts] = -np.inf
        found = _joined([estimates, later]).possible(top_k, self._slack(query))
        is_later = found >= len(base)
        found[is_later] = there[found[is_later] - len(base)] + len(base)
        return self._refined(query, top_k, found)

    def _in_leaves(
        self, query: QueryCode, top_k: int, counts: NDArray[np.bool_], later: Estimates
    ) -> tuple[Rows, Estimates] | None:
        """Return the rows of the base that can be near as far as leaves tell, of those that count, and their estimates;
        None when too many can."""
        leaves, slack = self.base.leaves, self._slack(query)
        seen = leaves.seen_by(query, self.base.codes.metric, self.base.codes.reference, slack) if len(leaves) else None
        if seen is None:
            return None
        bounds = leaves.bounds
        first = seen.first(max(FIRST_COMPARED, FIRST_OF_EACH * top_k))
        rows, estimates = self._of_slices(query, bounds[first], bounds[first + 1], counts)
        sure = np.concatenate([estimates.nearness - estimates.margins, later.nearness - later.margins])
        if len(sure) < top_k:
            return None
        least = float(np.partition(sure, -top_k)[-top_k]) - slack
        spreads = seen.least_spreads(least)
        left = leaves.with_spread(spreads, but=first)  # which are compared already
        if leaves.sizes[left].sum() > SHARE_IN_LEAVES * len(leaves.spreads):
            return None
        pairs = zip(left.tolist(), spreads[left].tolist(), strict=True)
        starts = np.array([leaves.first_with_spread(leaf, spread) for leaf, spread in pairs], dtype=np.intp)
        others, their_estimates = self._of_slices(query, starts, bounds[left + 1], counts)
        return np.concatenate([rows, others]), _joined([estimates, their_estimates])

    def _of_slices(
        self, query: QueryCode, starts: Rows, ends: Rows, counts: NDArray[np.bool_]
    ) -> tuple[Rows, Estimates]:
        """Return those rows of these parts of the base that count, and their estimates."""
        codes = self.base.codes
        parts = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True) if start < end]
        if not parts:
            return np.empty(0, dtype=np.intp), NO_ESTIMATES
        products = np.concatenate([multiply(codes.codes[part], [query.code])[0] for part in parts])
        rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        wanted = counts.take(rows)
        if not wanted.all():
            rows, products = rows[wanted], products[wanted]
        return rows, codes.estimated(query, products, rows)

    def _of_later(self, query: QueryCode, rows: Rows) -> Estimates:
        if not len(rows):
            return NO_ESTIMATES
        is_all = len(rows) == len(self.later) and np.array_equal(rows, np.arange(len(rows)))
        codes = self.later.codes if is_all else self.later.codes[rows]
        return self.later.estimated(query, multiply(codes, [query.code])[0], rows)

    def _refined(self, query: QueryCode, top_k: int, found: Rows) -> Rows:
        """Return which of the rows can be among the nearest by their fine codes, unless they are too many."""
        if len(found) > MOST_REFINED:
            return found
        here, there = self._parts(found)
        parts = [self.base.codes.refined(query, here)]
        if len(there):
            parts.append(self.later.refined(query, there))
        refined = _joined(parts).possible(top_k, self._slack(query))
        return np.concatenate([here, there + len(self.base.codes)])[refined]

    def _parts(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return the rows of the base, and those of later, counted from its beginning."""
        if not len(self.later):
            return rows, rows[:0]
        count = len(self.base.codes)
        return rows[rows < count], rows[rows >= count] - count

    def _slack(self, query: QueryCode) -> float:
        return max(self.base.codes.slack(query), self.later.slack(query))


class KeptCodes:
    """The codes of a collection, which are brought to the revisions of snapshots. Several threads can use it."""

    def __init__(self, base: BaseCodes, check_at: float = math.inf, renew_at: float = 0.0) -> None:
        self.base = base
        self.check_at = check_at
        """When the base is to be compared with its checksum, by the clock of whoever does that."""
        self.renew_at = renew_at
        """When there may be a new base, by the same clock."""
        count = len(base.positions)
        self._guard = threading.Lock()
        self._most_growth = max(LEAST_GROWTH, count // PARTS_OF_BASE)
        self._most_gone = max(LEAST_GROWTH, count // PARTS_LEFT)
        self._count = 0
        self._later = self._encoder(0)
        self._positions: Positions = np.empty(0, dtype=np.int64)
        self._rows: dict[int, int] = {}
        """The rows that count of what was written since, by position."""
        self._left = np.zeros(count, dtype=np.bool_)
        """The rows of the base that do not count any more."""
        self._gone: Rows = np.empty(0, dtype=np.intp)
        self._gone_count = 0
        self._newest = Held(base.revision, base, self._later.codes(), self._positions, self._gone)
        self._states = OrderedDict({base.revision: self._newest})
        self.nbytes = self._most_bytes()
        """The most memory that all of it takes."""

    @property
    def is_outgrown(self) -> bool:
        """Whether it is time for a new base."""
        return self._count > self._most_growth or self._gone_count > self._most_gone

    def at(self, transaction: Transaction, collection: Collection, most: int | None = None) -> Held:
        """Return the codes at the revision of the snapshot, to which they are brought by reading at most `most`
        documents. Raises OvertakenError, BehindError and OutgrownError."""
        held = self._states.get(collection.revision)
        if held is not None:
            return held
        if not self._guard.acquire(timeout=-1 if most is None else WAIT_SECONDS):
            raise BehindError  # another thread reads more than a query may
        try:
            held = self._states.get(collection.revision)
            if held is not None:
                return held
            if self._newest.revision > collection.revision:
                raise OvertakenError
            self._bring(transaction, collection, most)
            return self._newest
        finally:
            self._guard.release()

    def _bring(self, transaction: Transaction, collection: Collection, most: int | None) -> None:
        if collection.dimension != self.base.codes.codes.shape[1]:
            raise OutgrownError
        bearable = MOST_TIMES_OUTGROWN * self._most_growth
        limit = bearable if most is None else min(most, bearable)
        changed = feed.positions_since(transaction, collection, self._newest.revision, limit=limit + 1)
        if changed is None:
            raise OutgrownError
        if sum(map(len, changed)) > limit:
            raise BehindError if limit == most else OutgrownError
        places, vectors = reads.vectors_at(transaction, collection, changed.written)
        self._leave([*changed.written, *changed.deleted])
        if places:
            self._add(places, vectors)
        if len(self.base.positions) + self._count - self._gone_count != collection.count:
            raise OutgrownError  # whatever it is, it is not the collection
        gone, positions = self._gone[: self._gone_count], self._positions[: self._count]
        self._newest = Held(collection.revision, self.base, self._later.codes(self._count), positions, gone)
        self._states[collection.revision] = self._newest
        while len(self._states) > MOST_STATES:
            self._states.popitem(last=False)
        self.nbytes = self._most_bytes()

    def _leave(self, positions: list[int]) -> None:
        """Let the rows of documents not count any more, of those that have one that does."""
        rows = self.base.rows_of(np.array(positions, dtype=np.int64))
        rows = rows[rows >= 0]
        rows = rows[~self._left[rows]]
        self._left[rows] = True
        later = [self._rows.pop(position) for position in positions if position in self._rows]
        gone = np.concatenate([rows, np.array(later, dtype=np.intp) + len(self.base.positions)])
        after = self._gone_count + len(gone)
        if after > len(self._gone):
            # States that were given keep the array that they have.
            self._gone = np.resize(self._gone, 2 * after)
        self._gone[self._gone_count : after] = gone
        self._gone_count = after

    def _add(self, positions: list[int], vectors: Vector) -> None:
        first, after = self._count, self._count + len(positions)
        if after > len(self._positions):
            # States that were given keep the arrays that they have.
            grown = self._encoder(2 * after)
            grown.take(self._later.codes(first))
            self._later, self._positions = grown, np.resize(self._positions, 2 * after)
        self._later.add(slice(first, after), vectors)
        self._positions[first:after] = positions
        self._rows.update(zip(positions, range(first, after), strict=True))
        self._count = after

    def _most_bytes(self) -> int:
        beside = ROW_BYTES * len(self._left) + LATER_BYTES * self._count
        growing = self._later.nbytes + self._positions.nbytes + self._gone.nbytes
        # Earlier states may keep the arrays that were outgrown, which together are smaller than those in their place.
        return self.base.nbytes + beside + 2 * growing

    def _encoder(self, count: int) -> Encoder:
        codes = self.base.codes
        return Encoder(codes.metric, codes.reference, *empty_arrays(count, codes.codes.shape[1]))


def _joined(parts: Sequence[Estimates]) -> Estimates:
    parts = [part for part in parts if len(part.nearness)] or [NO_ESTIMATES]
    if len(parts) == 1:
        return parts[0]
    return Estimates(
        np.concatenate([part.nearness for part in parts]), np.concatenate([part.margins for part in parts])
    )
