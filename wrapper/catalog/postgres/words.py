"""The word index on PostgreSQL: one table for all collections.

Making and dropping a collection therefore neither locks nor outruns what others read. Each row carries its collection
as a word of its own, so that the index finds both at once.

A long text has several rows, because a `tsvector` is limited in size and numbers its words only up to a limit. Words
are split and folded here, by the rules of `wrapper/catalog/words/splitting.py`; PostgreSQL stems them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from schemas.records import Collection
from schemas.where import Where
from wrapper.catalog.contract import Ranked, Transaction, WordRow
from wrapper.catalog.filters import predicate
from wrapper.catalog.sortable_values import bounded
from wrapper.catalog.words.splitting import (
    HEADING_WEIGHT,
    TAGS_WEIGHT,
    folded_words,
    identifier_words,
    query_terms,
)

CONFIGURATION = "rag_words"
WORDS_IN_ROW = 1_000
CHARACTERS_IN_ROW = 100_000

# The weights {D, C, B, A} of a word: in a text, in a tag, unused, in a heading. 1 is the highest weight that there is.
WEIGHTS = f"{{{1 / HEADING_WEIGHT}, {TAGS_WEIGHT / HEADING_WEIGHT}, 0, 1}}"

# What an index needs to stem English without leaving out the words that every text has.
SETUP = (
    "CREATE TEXT SEARCH DICTIONARY rag_english (TEMPLATE = pg_catalog.snowball, Language = english)",
    f"CREATE TEXT SEARCH CONFIGURATION {CONFIGURATION} (COPY = pg_catalog.english)",
    f"ALTER TEXT SEARCH CONFIGURATION {CONFIGURATION} ALTER MAPPING REPLACE pg_catalog.english_stem WITH rag_english",
)

_SEARCH = (
    "WITH terms AS MATERIALIZED ("
    f"SELECT given.number, given.times, phraseto_tsquery('{CONFIGURATION}', given.term) AS term "
    "FROM unnest(?::text[], ?::bigint[]) WITH ORDINALITY AS given (term, times, number)"
    "), hits AS MATERIALIZED ("
    f"SELECT t.number, w.position, t.times * max(ts_rank('{WEIGHTS}', w.lexemes, t.term, 1)) AS rank "
    "FROM terms t JOIN words w ON w.lexemes @@ (?::tsquery && t.term) AND w.collection_key = ? "
    "WHERE numnode(t.term) > 0 GROUP BY t.number, t.times, w.position"
    "), weights AS MATERIALIZED ("
    "SELECT h.number, ln(1 + (c.count - count(*) + 0.5) / (count(*) + 0.5)) AS weight "
    "FROM hits h JOIN collections c ON c.key = ? GROUP BY h.number, c.count"
    ") SELECT h.position, sum(CAST(h.rank * g.weight AS DOUBLE PRECISION) ORDER BY h.number) AS score "
    "FROM hits h JOIN weights g ON g.number = h.number GROUP BY h.position"
)


def drop(transaction: Transaction, collection_key: int) -> None:
    transaction.run("DELETE FROM words WHERE collection_key = ?", (collection_key,))


def add(transaction: Transaction, collection_key: int, rows: Sequence[WordRow]) -> None:
    found = [(row.position, heading, words, tags) for row in rows for heading, words, tags in _parts(row)]
    transaction.run(
        "INSERT INTO words (position, collection_key, lexemes) "
        f"SELECT given.position, ?, setweight(to_tsvector('{CONFIGURATION}', given.heading), 'A') "
        f"|| to_tsvector('{CONFIGURATION}', given.words) || setweight(to_tsvector('{CONFIGURATION}', given.tags), 'C') "
        "|| array_to_tsvector(ARRAY[?::text]) "
        "FROM unnest(?::bigint[], ?::text[], ?::text[], ?::text[]) AS given (position, heading, words, tags)",
        (
            collection_key,
            _mark(collection_key),
            [position for position, _, _, _ in found],
            [heading for _, heading, _, _ in found],
            [words for _, _, words, _ in found],
            [tags for _, _, _, tags in found],
        ),
    )


def remove(transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
    gone = transaction.dialect.one_of("position", places)
    transaction.run(f"DELETE FROM words WHERE collection_key = ? AND {gone.text}", (collection_key, *gone.parameters))


def best(
    transaction: Transaction, collection: Collection, query: str, where: Where, *, limit: int
) -> tuple[list[Ranked], int]:
    """Return the best `limit` documents, and how many documents match.

    A score is the sum, over the terms, of `ts_rank` times the term's inverse document frequency, as BM25 has it.
    `ts_rank` grows ever more slowly with a term's occurrences, and is divided by the logarithm of the text's length.
    """
    asked = [(folded_words(term), times) for term, times in query_terms(query).items()]
    terms = [(" ".join(map(bounded, words)), times) for words, times in asked if words]
    if not terms:
        return [], 0
    matching = predicate(transaction, where, "w.position")
    rows = transaction.rows(
        f"SELECT w.position, w.score, count(*) OVER () FROM ({_SEARCH}) w WHERE {matching.text} "
        "ORDER BY w.score DESC, w.position LIMIT ?",
        (
            [term for term, _ in terms],
            [times for _, times in terms],
            f"'{_mark(collection.key)}'",
            collection.key,
            collection.key,
            *matching.parameters,
            limit,
        ),
    )
    return [Ranked(row[0], float(row[1])) for row in rows], int(rows[0][2]) if rows else 0


def _mark(collection_key: int) -> str:
    # No word of a text begins with a number sign.
    return f"#{int(collection_key)}"


def _parts(row: WordRow) -> Iterator[tuple[str, str, str]]:
    """Yield a document's heading, text and tags side by side, row by row, and then the parts of its identifiers."""
    heading, text, tags = (_in_rows(folded_words(words)) for words in (row.heading, row.text, row.tags))
    identifiers = _in_rows(folded_words(identifier_words(f"{row.heading}\n{row.text}")))
    return chain(zip_longest(heading, text, tags, fillvalue=""), (("", words, "") for words in identifiers))


def _in_rows(words: list[str]) -> Iterator[str]:
    row: list[str] = []
    characters = 0
    for word in map(bounded, words):
        row.append(word)
        characters += len(word)
        if len(row) == WORDS_IN_ROW or characters > CHARACTERS_IN_ROW:
            yield " ".join(row)
            row, characters = [], 0
    if row:
        yield " ".join(row)
