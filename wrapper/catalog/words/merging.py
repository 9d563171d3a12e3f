"""Merging of the word index's segments: few large ones are read faster than many small ones.

A merge also drops the words of removed documents from the file. Segments of one language and of about the same size
become one, sixteen at a time: a word is written again only when its segment grows to sixteen times its size.

The work is done beside the writers: a merge is made from a snapshot, and then replaces its sources in one short write.
Changes in between are not lost: each is another segment, or a removal later than the snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from wrapper.catalog.contract import Committing, Transaction
from wrapper.catalog.words.segments import encoded, merge
from wrapper.catalog.words.stored_segments import Layouts, StoredSegment, moment, read, replace, segments, settle

Replacement = Callable[[Transaction], None]
"""The write that puts a merged segment in the place of its sources."""

MERGED_AT_ONCE = 16
FIRST_SIZE_BITS = 14
"""Segments of less than 2 ** 14 words are of the first size, those of less than 2 ** 18 of the next, and so on."""
MOST_WORDS = 4 << 20
"""The most words of a merged segment, which takes some 25 bytes of memory a word while it is made. Half as many words
are enough: such a segment is not merged with others of its size any more."""
QUIET_SECONDS = 5.0
FEW_WORDS = 1 << 19
"""The most words of a language in a collection whose segments all become one when nothing has been written to the
collection for `QUIET_SECONDS`."""
PURGE_EVERY_SECONDS = 5.0
PURGE_SHARE = 0.05
"""The share of the time that may go into rewriting segments without their removed documents."""


class WordMerging:
    """The merging of one database's segments, `merged_at_once` at a time.

    One thread of one process uses it: it calls `step` while that returns True, and again after a write.
    """

    def __init__(
        self, catalog: Committing, clock: Callable[[], float], *, merged_at_once: int = MERGED_AT_ONCE
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._merged_at_once = merged_at_once
        self._layouts = Layouts(most_documents=0)
        self._seen = 0
        self._changed: deque[int] = deque()
        self._quiet_since: dict[int, float] = {}
        self._to_purge: deque[int] = deque()
        self._purge_at = float("-inf")

    def step(self) -> bool:
        """Merge some segments. Return False when there is nothing to do."""
        started = self._clock()
        with self._catalog.read() as transaction:
            self._look(transaction, started)
            write = self._next(transaction, started)
            is_purge = write is None
            if is_purge:
                write = self._next_purge(transaction)
        if write is None:
            return False
        # After the read has ended: on PostgreSQL, what rewrites these tables waits for it, and the writers for that.
        # Not quickly: a database server that crashes would give the new segments' numbers to others, while this process
        # keeps what it has read of them.
        self._catalog.commit(write)
        if is_purge:
            self._purge_at = max(self._purge_at, self._clock()) + (self._clock() - started) / PURGE_SHARE
        return True

    def _next(self, transaction: Transaction, now: float) -> Replacement | None:
        while self._changed:
            if several := self._alike(transaction, self._changed[0]):
                return _merged(transaction, self._changed[0], several)
            self._quiet_since[self._changed.popleft()] = now
        for collection_key in [key for key, since in self._quiet_since.items() if now - since >= QUIET_SECONDS]:
            for every in _by_language(segments(transaction, self._layouts, collection_key)):
                if len(every) > 1 and sum(each.words for each in every) <= FEW_WORDS:
                    return _merged(transaction, collection_key, every)
            del self._quiet_since[collection_key]
        return None

    def _next_purge(self, transaction: Transaction) -> Replacement | None:
        while self._to_purge:
            every = segments(transaction, self._layouts, self._to_purge[0])
            if with_removals := [each for each in every if each.alive is not None]:
                return _merged(transaction, self._to_purge[0], with_removals[:1])
            return partial(
                settle,
                collection_key=self._to_purge.popleft(),
                numbers=[each.number for each in every],
                clean_to=moment(transaction),
            )
        return None

    def _look(self, transaction: Transaction, now: float) -> None:
        newest = transaction.value("SELECT coalesce(max(number), 0) FROM word_segments")
        if newest > self._seen:
            rows = transaction.rows("SELECT DISTINCT collection_key FROM word_segments WHERE number > ?", (self._seen,))
            self._changed.extend(row[0] for row in rows if row[0] not in self._changed)
            self._seen = newest
        if now >= self._purge_at and not self._to_purge:
            self._purge_at = now + PURGE_EVERY_SECONDS
            rows = transaction.rows("SELECT DISTINCT collection_key FROM word_removals")
            self._to_purge.extend(row[0] for row in rows)

    def _alike(self, transaction: Transaction, collection_key: int) -> list[StoredSegment]:
        """Return the segments to merge next: those of the smallest size that has enough of them."""
        rows = transaction.rows(
            "SELECT number, language, words FROM word_segments WHERE collection_key = ? ORDER BY number",
            (collection_key,),
        )
        by_size: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for number, language, words in rows:
            if words < MOST_WORDS // 2:
                size = max(0, words.bit_length() - FIRST_SIZE_BITS + 3) // 4
                by_size.setdefault((size, language), []).append((number, words))
        for size in sorted(by_size):
            if len(by_size[size]) >= self._merged_at_once:
                chosen, total = set(), 0
                for number, words in by_size[size]:
                    total += words
                    if total > MOST_WORDS:
                        break
                    chosen.add(number)
                return [each for each in segments(transaction, self._layouts, collection_key) if each.number in chosen]
        return []


def purge(catalog: Committing, collection_key: int) -> None:
    """Merge at once what holds words of removed documents of a collection, so that no segment has any of them."""
    layouts = Layouts(most_documents=0)
    while True:
        with catalog.read() as transaction:
            every = segments(transaction, layouts, collection_key)
            stale = [each for each in every if each.alive is not None][:1]
            if not stale:
                return
            write = _merged(transaction, collection_key, stale)
        catalog.commit(write)


def _merged(transaction: Transaction, collection_key: int, several: Sequence[StoredSegment]) -> Replacement:
    """Merge segments. Return the write, for when the transaction has ended."""
    now = moment(transaction)
    merged = encoded(merge([(read(transaction, each), each.alive) for each in several]), several[0].language)
    return lambda writing: replace(writing, collection_key, several, merged, clean_to=now)


def _by_language(every: Sequence[StoredSegment]) -> list[list[StoredSegment]]:
    by_language: dict[str, list[StoredSegment]] = {}
    for segment in every:
        by_language.setdefault(segment.language, []).append(segment)
    return list(by_language.values())
