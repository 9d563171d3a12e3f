"""The codes of one collection as a process keeps them: those of a base, and of what was written since beside it."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from schemas.records import Collection, Vector
from wrapper.catalog import reads
from wrapper.catalog.changes import feed
from wrapper.catalog.contract import Transaction
from wrapper.querying.code_files import CodeFile, Positions
from wrapper.querying.codes import Codes, Encoder, Estimates, Floats, QueryCode, Rows, empty_arrays, multiply

LEAST_GROWTH = 4_096
PARTS_OF_BASE = 8
"""What is beside the base may become an eighth of it, and at least `LEAST_GROWTH` documents."""
MOST_STATES = 8
"""The revisions that can be answered for: those of snapshots that queries may still have."""
MOST_REFINED = 16_384
"""Of so many documents fine codes are compared."""


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
    base: CodeFile
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

    def rows_of(self, positions: Sequence[int]) -> Rows:
        """Return the rows of documents, given by their positions at the same revision."""
        wanted = np.asarray(positions, dtype=np.int64)
        rows = np.searchsorted(self.base.positions, wanted)
        order, later = self._sorted
        if len(order):
            places = np.minimum(np.searchsorted(later, wanted), len(order) - 1)
            is_later = later[places] == wanted
            rows[is_later] = order[places[is_later]] + len(self.base.positions)
        return rows

    def positions_of(self, rows: Rows) -> list[int]:
        """Return the positions of documents, given by their rows."""
        count = len(self.base.positions)
        found = [self.base.positions[rows[rows < count]], self.positions[rows[rows >= count] - count]]
        positions: list[int] = np.concatenate(found).tolist()
        return positions

    def nearest(self, query: QueryCode, top_k: int, rows: Rows | None = None, products: Floats | None = None) -> Rows:
        """Return the rows that can be among the `top_k` nearest, of `rows` (n,), rising, if given.

        `products` are those of the whole base with the query's code, and are used up; without them, those of the rows
        are computed. Equal vectors are all among the result or none.
        """
        base, count = self.base.codes, len(self.base.positions)
        slack = max(base.slack(query), self.later.slack(query))
        if rows is None:
            assert products is not None
            parts = [base.estimated(query, products)]
            if len(self.later):
                parts.append(self.later.estimated(query, multiply(self.later.codes, [query.code])[0]))
            estimates = _joined(parts)
            estimates.nearness[self.gone] = -np.inf
            found = estimates.possible(top_k, slack)
        else:
            here, there = rows[rows < count], rows[rows >= count] - count
            own = multiply(base.codes[here], [query.code])[0] if products is None else products[here]
            parts = [base.estimated(query, own, here)]
            if len(there):
                parts.append(self.later.estimated(query, multiply(self.later.codes[there], [query.code])[0], there))
            found = np.concatenate([here, there + count])[_joined(parts).possible(top_k, slack)]
        if len(found) > MOST_REFINED:
            return found
        here, there = found[found < count], found[found >= count] - count
        refined = _joined([base.refined(query, here), self.later.refined(query, there)])
        return np.concatenate([here, there + count])[refined.possible(top_k, slack)]


class KeptCodes:
    """The codes of a collection, which are brought to the revisions of snapshots. Several threads can use it."""

    def __init__(self, base: CodeFile, check_at: float = math.inf) -> None:
        self.base = base
        self.check_at = check_at
        """When the base is to be compared with its checksum, by the clock of whoever does that."""
        count = len(base.positions)
        self._guard = threading.Lock()
        self._most_growth = max(LEAST_GROWTH, count // PARTS_OF_BASE)
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

    @property
    def nbytes(self) -> int:
        return self.base.nbytes + self._later.nbytes

    @property
    def is_outgrown(self) -> bool:
        """Whether it is time for a new base."""
        return self._count > self._most_growth

    def at(self, transaction: Transaction, collection: Collection, most: int | None = None) -> Held:
        """Return the codes at the revision of the snapshot, to which they are brought by reading at most `most`
        documents. Raises OvertakenError, BehindError and OutgrownError."""
        with self._guard:
            held = self._states.get(collection.revision)
            if held is not None:
                return held
            if self._newest.revision > collection.revision:
                raise OvertakenError
            self._bring(transaction, collection, most)
            return self._newest

    def _bring(self, transaction: Transaction, collection: Collection, most: int | None) -> None:
        if collection.dimension != self.base.codes.codes.shape[1]:
            raise OutgrownError
        limit = 2 * self._most_growth if most is None else min(most, 2 * self._most_growth)
        changed = feed.positions_since(transaction, collection, self._newest.revision, limit=limit + 1)
        if changed is None:
            raise OutgrownError
        if sum(map(len, changed)) > limit:
            raise BehindError if limit == most else OutgrownError
        places, vectors = reads.vectors_at(transaction, collection, changed.written)
        for position in (*changed.written, *changed.deleted):
            self._leave(position)
        if places:
            self._add(places, vectors)
        if len(self.base.positions) + self._count - self._gone_count != collection.count:
            raise OutgrownError  # whatever it is, it is not the collection
        gone, positions = self._gone[: self._gone_count], self._positions[: self._count]
        self._newest = Held(collection.revision, self.base, self._later.codes(self._count), positions, gone)
        self._states[collection.revision] = self._newest
        while len(self._states) > MOST_STATES:
            self._states.popitem(last=False)

    def _leave(self, position: int) -> None:
        """Let the row of a document not count any more, if there is one that does."""
        count = len(self.base.positions)
        later = self._rows.pop(position, None)
        row = int(np.searchsorted(self.base.positions, position)) if later is None else count + later
        if later is None:
            if row == count or self.base.positions[row] != position or self._left[row]:
                return
            self._left[row] = True
        self._gone = _with_room(self._gone, self._gone_count)
        self._gone[self._gone_count] = row
        self._gone_count += 1

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

    def _encoder(self, count: int) -> Encoder:
        codes = self.base.codes
        return Encoder(codes.metric, codes.reference, *empty_arrays(count, codes.codes.shape[1]))


def _with_room(rows: Rows, taken: int) -> Rows:
    """Return the rows with room for one more behind those that are taken; those that were given stay as they are."""
    return rows if taken < len(rows) else np.resize(rows, max(64, 2 * taken))


def _joined(parts: Sequence[Estimates]) -> Estimates:
    if len(parts) == 1:
        return parts[0]
    return Estimates(
        np.concatenate([part.nearness for part in parts]), np.concatenate([part.margins for part in parts])
    )
