"""The word index on SQLite: three tables for all collections, so that making or dropping a collection changes no schema
and costs nobody anything, and word statistics are the collection's own.

Each write adds a segment (`wrapper/catalog/word_segments.py`): the words of its documents. Segments never change. What
is taken out is listed in `word_removals`, with a moment; it holds for what was written before that moment. Now and then
segments are merged, without what was taken out (`wrapper/catalog/word_merging.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.records import Collection
from schemas.where import EVERYTHING, Where
from wrapper.catalog.bm25 import Ranking, Scores
from wrapper.catalog.dialect import Ranked, WordRow
from wrapper.catalog.filters import positions, predicate
from wrapper.catalog.stems import Stemmer
from wrapper.catalog.stored_segments import Layouts, next_moment, segments, store
from wrapper.catalog.transaction import Sql, Transaction
from wrapper.catalog.word_segments import Mask, Places, Segment, build
from wrapper.catalog.words import folded_words, identifier_words, query_terms

FEW_FOUND = 1_000
"""Of so many at most it is asked one by one whether they match a filter."""


class SegmentIndex:
    """Of one database."""

    def __init__(self) -> None:
        self._layouts = Layouts()
        self._stemmer = Stemmer()

    def drop(self, transaction: Transaction, collection_key: int) -> None:
        mine = "SELECT number FROM word_segments WHERE collection_key = ?"
        transaction.run(f"DELETE FROM word_blocks WHERE segment IN ({mine})", (collection_key,))
        for table in ("word_segments", "word_removals"):
            transaction.run(f"DELETE FROM {table} WHERE collection_key = ?", (collection_key,))

    def add(self, transaction: Transaction, collection_key: int, rows: Sequence[WordRow]) -> None:
        if rows:
            now = next_moment(transaction)
            segment = segment_of(rows, self._stemmer)
            store(transaction, collection_key, segment, number=now, clean_to=now)

    def remove(self, transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
        if not places:
            return
        now = next_moment(transaction)
        transaction.run_many(
            "INSERT INTO word_removals (collection_key, position, moment) VALUES (?, ?, ?) "
            "ON CONFLICT (collection_key, position) DO UPDATE SET moment = excluded.moment",
            [(collection_key, place, now) for place in places],
        )

    def best(
        self, transaction: Transaction, collection: Collection, query: str, where: Where, *, limit: int
    ) -> tuple[list[Ranked], int]:
        """Scored by BM25."""
        ranking = Ranking(transaction, segments(transaction, self._layouts, collection.key))
        phrases = [words for term in query_terms(query) if (words := folded_words(term))]
        for phrase in dict.fromkeys(tuple(self._stemmer.stems(words)) for words in phrases):
            ranking.ask(phrase)
        found, scores = ranking.result()
        if where != EVERYTHING and len(found):
            matches = _matching(transaction, collection, where, found)
            found, scores = found[matches], scores[matches]
        order = _best_first(found, scores, limit)
        return [Ranked(int(found[place]), float(scores[place])) for place in order], len(found)


def segment_of(rows: Sequence[WordRow], stemmer: Stemmer) -> Segment:
    """The words of documents."""
    words: list[str] = []
    lengths = []
    for row in rows:
        identifiers = identifier_words(f"{row.heading}\n{row.text}")
        fields = [folded_words(text) for text in (row.heading, row.text, row.tags, identifiers)]
        lengths.append([len(field) for field in fields])
        for field in fields:
            words += field
    return build([row.position for row in rows], lengths, words, stemmer.stems)


def _matching(transaction: Transaction, collection: Collection, where: Where, found: Places) -> Mask:
    if len(found) > FEW_FOUND:
        matching = positions(transaction, collection.key, where)
    else:
        asked = transaction.dialect.one_of("m.position", found.tolist())
        condition = predicate(transaction, where, "m.position")
        matching = Sql(
            f"SELECT m.position FROM documents m WHERE {asked.text} AND {condition.text}",
            asked.parameters + condition.parameters,
        )
    rows = transaction.rows(matching.text, matching.parameters)
    return np.isin(found, np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows)))


def _best_first(found: Places, scores: Scores, limit: int) -> Places:
    """The places of the best `limit`; equals in the order of insertion."""
    if len(found) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(found))
    order: Places = candidates[np.lexsort((found[candidates], -scores[candidates]))][:limit]
    return order
