"""The word index: three tables for the words of all collections.

Making or dropping a collection therefore changes no schema and costs the others nothing, and word statistics are the
collection's own.

Each write adds segments (`wrapper/catalog/words/segments.py`): the words of its documents, those of each language in a
segment of their own. Segments never change. A document that is removed is listed in `word_removals` with a moment; the
removal holds for everything written before that moment. From time to time segments are merged without the removed
documents (`wrapper/catalog/words/merging.py`).

A question is asked of each segment in the stems of its language. Where documents are in a language that writes
compounds as one word, words that occur nowhere are asked for by their parts (`wrapper/catalog/words/compounds.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from schemas.records import Collection
from schemas.where import EVERYTHING, Where
from schemas.words.shadows import identifier_words, joined_and_signed
from schemas.words.splitting import normalized, split
from schemas.words.stems import DEFAULT, Stemmer
from schemas.words.stop_words import STOP_WORDS
from wrapper.catalog.contract import GiveWay, PreparedWords, Ranked, Sql, Transaction, WordRow, go_on
from wrapper.catalog.filters import positions, predicate
from wrapper.catalog.texts import signatures
from wrapper.catalog.words.bm25 import Occurrences, Phrases, Scores, occurring, ranked, terms_of
from wrapper.catalog.words.compounds import COMPOUNDING, parts_of, splits_of
from wrapper.catalog.words.held import HeldWords, occurrences_of
from wrapper.catalog.words.segments import Mask, Places, Segment, build, encoded
from wrapper.catalog.words.splitting import query_terms
from wrapper.catalog.words.stored_segments import Layouts, StoredSegment, next_moment, segments, store, visible

FEW_FOUND = 1_000
"""The most documents found by words that are checked against a filter one by one."""


class WordIndex:
    """The word index of one database; `held` are the words of its collections that this process holds.

    With a document's words it keeps the signature of its text (`wrapper/catalog/texts/signatures.py`).
    """

    def __init__(self, held: HeldWords | None = None) -> None:
        self._layouts = Layouts()
        self._stemmer = Stemmer()
        self._held = held or HeldWords()

    def drop(self, transaction: Transaction, collection_key: int) -> None:
        mine = "SELECT number FROM word_segments WHERE collection_key = ?"
        transaction.run(f"DELETE FROM word_blocks WHERE segment IN ({mine})", (collection_key,))
        for table in ("word_segments", "word_removals"):
            transaction.run(f"DELETE FROM {table} WHERE collection_key = ?", (collection_key,))
        signatures.drop(transaction, collection_key)

    def prepare(self, rows: Sequence[WordRow], give_way: GiveWay = go_on) -> PreparedWords:
        by_language: dict[str, list[WordRow]] = {}
        for row in rows:
            by_language.setdefault(row.language, []).append(row)
        return PreparedWords(
            [encoded(segment_of(some, self._stemmer, give_way), language) for language, some in by_language.items()],
            [(row.position, signatures.signature(row.text)) for row in rows],
        )

    def add(
        self, transaction: Transaction, collection_key: int, words: PreparedWords, places: Sequence[int] | None = None
    ) -> None:
        if places is not None:
            words = _placed(words, np.array(places, dtype=np.int64))
        store(transaction, collection_key, words.segments)
        signatures.add(transaction, collection_key, words.signatures)

    def remove(self, transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
        if not places:
            return
        signatures.remove(transaction, collection_key, places)
        now = next_moment(transaction)
        before = transaction.dialect.one_of("position", places)
        transaction.run(
            f"DELETE FROM word_removals WHERE collection_key = ? AND {before.text}",
            (collection_key, *before.parameters),
        )
        removals = [(collection_key, place, now) for place in places]
        transaction.insert("word_removals", "collection_key, position, moment", removals)

    def best(
        self,
        transaction: Transaction,
        collection: Collection,
        query: str,
        where: Where,
        *,
        limit: int,
        seen: Where = EVERYTHING,
    ) -> tuple[list[Ranked], int]:
        """Return the best `limit` documents by BM25, and how many documents match.

        The statistics are those of the documents that match `seen`, and only these are found.
        """
        stored = segments(transaction, self._layouts, collection.key)
        held = self._held.of(transaction, collection.key, stored)
        read = partial(occurrences_of, transaction, stored, held)
        searched = stored
        if seen != EVERYTHING:
            searched = visible(searched, transaction.dialect.matches.of(transaction, collection, seen))
        languages = sorted(
            {segment.language for segment in searched}, key=lambda language: (language != DEFAULT, language)
        )
        said = query_terms(query, languages)
        asked: Counter[Phrases] = Counter()
        for term, times in said.items():
            asked[self._phrases(term, languages)] += times
        occurrences = read(terms_of(asked))
        if COMPOUNDING.intersection(languages):
            parts, theirs = self._parts(said, occurrences, languages, read, searched)
            asked += parts
            occurrences |= theirs
        found, scores = ranked(searched, occurrences, asked)
        if where != EVERYTHING and len(found):
            matches = _matching(transaction, collection, where, found)
            found, scores = found[matches], scores[matches]
        order = _best_first(found, scores, limit)
        return [Ranked(int(found[place]), float(scores[place])) for place in order], len(found)

    def _phrases(self, term: str, languages: Sequence[str]) -> Phrases:
        words = term.split(" ")
        return tuple((language, tuple(self._stemmer.stems(words, language))) for language in languages)

    def _parts(
        self,
        said: Mapping[str, int],
        occurrences: Occurrences,
        languages: Sequence[str],
        read: Callable[[Sequence[tuple[str, str]]], Occurrences],
        searched: Sequence[StoredSegment],
    ) -> tuple[Counter[Phrases], Occurrences]:
        """Return the parts of those words that occur nowhere, and where the parts occur."""
        known = occurring(searched, occurrences)
        words = [term for term in said if " " not in term]
        splits = splits_of(word for word in words if known.isdisjoint(_stems(self._phrases(word, languages))))
        parts = dict.fromkeys(part for pairs in splits.values() for pair in pairs for part in pair)
        phrases = {part: self._phrases(part, languages) for part in parts}
        found = read(terms_of(phrases.values()))
        known = occurring(searched, found) - self._stop_stems(languages)
        having = {part for part, stems in phrases.items() if not known.isdisjoint(_stems(stems))}
        asked: Counter[Phrases] = Counter()
        for word, pairs in splits.items():
            for part in parts_of(pairs, having.__contains__):
                asked[phrases[part]] += said[word]
        return asked, found

    def _stop_stems(self, languages: Iterable[str]) -> set[str]:
        """Return the terms of the stop words of those languages that write compounds."""
        return {
            stem
            for language in COMPOUNDING.intersection(languages)
            for stem in self._stemmer.stems(sorted(STOP_WORDS.get(language, ())), language)
        }


def _stems(phrases: Phrases) -> list[str]:
    return [stem for _, stems in phrases for stem in stems]


def _placed(words: PreparedWords, places: Places) -> PreparedWords:
    """Return words with the document's positions, where they have its numbers in the list of these."""
    return PreparedWords(
        [each._replace(positions=places[each.positions]) for each in words.segments],
        [(int(places[number]), bits) for number, bits in words.signatures],
    )


def segment_of(rows: Sequence[WordRow], stemmer: Stemmer, give_way: GiveWay = go_on) -> Segment:
    """Build the segment that holds the words of documents of one language."""
    words: list[str] = []
    lengths = []
    beside: list[tuple[int, str]] = []
    for number, row in enumerate(rows):
        give_way()
        heading, text = normalized(row.heading), normalized(row.text)
        whole = f"{heading}\n{text}"
        fields = [split(each) for each in (heading, text, row.tags, identifier_words(whole))]
        beside += [(number, term) for term in joined_and_signed(whole)]
        lengths.append([len(field) for field in fields])
        for field in fields:
            words += field
    language = rows[0].language if rows else DEFAULT
    return build([row.position for row in rows], lengths, words, lambda some: stemmer.stems(some, language), beside)


def _matching(transaction: Transaction, collection: Collection, where: Where, found: Places) -> Mask:
    if len(found) > FEW_FOUND:
        matching = positions(transaction, collection.key, where)
    else:
        asked = transaction.dialect.one_of("m.position", found.tolist())
        condition = predicate(transaction, collection.key, where, "m.position")
        matching = Sql(
            f"SELECT m.position FROM documents m WHERE {asked.text} AND {condition.text}",
            asked.parameters + condition.parameters,
        )
    return np.isin(found, transaction.numbers(matching.text, matching.parameters))


def _best_first(found: Places, scores: Scores, limit: int) -> Places:
    """Return the indexes in `found` of the best `limit` documents, the best first, equals in the order of insertion."""
    if len(found) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(found))
    order: Places = candidates[np.lexsort((found[candidates], -scores[candidates]))][:limit]
    return order
