"""The one word index of each database: a collection's own statistics, segments merged beside its writers, and nothing left of
deleted documents."""

import sqlite3
from contextlib import closing
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.words.shadows import identifier_words
from schemas.words.stems import Stemmer
from tests.properties.consistency import check_tables
from tests.wrapper import documents
from tests.wrapper.catalog.conftest import SQLITE
from wrapper.catalog.contract import WordRow
from wrapper.catalog.names import collection_writes
from wrapper.catalog.words import merging as merging_module
from wrapper.catalog.words.index import segment_of
from wrapper.catalog.words.merging import WordMerging
from wrapper.catalog.words.segments import FIELDS, Segment, blocks, decoded, joined, merge, occurrences_in
from wrapper.catalog.words.splitting import HEADING_WEIGHT, TAGS_WEIGHT
from wrapper.catalog.words.stored_segments import Layouts

WORDS = ["alpha", "beta", "gamma", "running", "runs", "delta7", "getUserName", "over_there", "x"]
STEMMER = Stemmer()
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=8)


@pytest.fixture
def add(catalog):
    def add_documents(name, texts, *, ids=None, title=None):
        metadatas = [{} if title is None else {"title": title} for _ in texts]
        documents.add(catalog, name, ids or documents.numbered(len(texts), ""), texts, metadatas)

    return add_documents


@pytest.fixture
def make(catalog):
    return partial(documents.create, catalog)


@pytest.fixture
def merging(catalog):
    ticks = count(step=100)
    return WordMerging(catalog, lambda: float(next(ticks)), merged_at_once=2)


def _scores(catalog, name, query):
    return [(match.document.id, match.score) for match in documents.search(catalog, name, query)[0]]


def _rows(catalog, table):
    with catalog.read() as transaction:
        return transaction.value(f"SELECT count(*) FROM {table}")


@given(texts=TEXTS)
def test_scores_are_those_that_fts5_gives_a_table_of_the_collection_alone(make, add, catalog, texts):
    name = f"docs-{_rows(catalog, 'collections')}"
    make(name)
    add(name, texts, title="alpha and omega")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5"
            '(heading, text, tags, identifiers, tokenize="porter unicode61 remove_diacritics 2")'
        )
        connection.executemany(
            "INSERT INTO words VALUES ('alpha and omega', ?, '', ?)",
            [(text, identifier_words(f"alpha and omega\n{text}")) for text in texts],
        )
        for query, expression in (
            ("alpha run", '"alpha" OR "run"'),
            ('"alpha beta"', '"alpha beta" OR "alpha" OR "beta"'),
        ):
            expected = connection.execute(
                f"SELECT rowid - 1, -bm25(words, {HEADING_WEIGHT}, 1, {TAGS_WEIGHT}, 1) FROM words WHERE words MATCH ? "
                "ORDER BY 2 DESC, 1",
                (expression,),
            ).fetchall()
            found = _scores(catalog, name, query)
            assert sorted(int(found) for found, _ in found) == sorted(found for found, _ in expected)
            assert [score for _, score in found] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("end", [collection_writes.delete_collection, collection_writes.empty_collection])
def test_no_word_of_a_deleted_or_emptied_collection_is_left(make, add, catalog, end):
    make("docs")
    add("docs", ["alpha", "beta"])
    add("docs", ["gamma"], ids=["0"])
    catalog.commit(lambda transaction: end(transaction, "docs"))
    tables = ("word_segments", "word_blocks", "word_removals")
    assert {table: _rows(catalog, table) for table in tables} == dict.fromkeys(tables, 0)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), TEXTS), min_size=1, max_size=10))
@SQLITE
def test_merged_segments_answer_as_those_they_were_made_from(make, add, catalog, merging, tmp_path, stories):
    name = f"docs-{_rows(catalog, 'collections')}"
    make(name)
    for prefix, texts in stories:
        add(name, texts, ids=[f"{prefix}{number}" for number in range(len(texts))])
    queries = ["alpha", "runs beta", '"alpha beta" user']
    before = [_scores(catalog, name, query) for query in queries]
    while merging.step():
        pass
    assert [_scores(catalog, name, query) for query in queries] == [
        [(document, pytest.approx(score)) for document, score in answer] for answer in before
    ]
    check_tables(tmp_path / "catalog.sqlite")


def test_words_that_were_taken_out_leave_the_file(make, add, catalog, merging):
    make("docs")
    add("docs", ["alpha secret", "beta", "gamma old"])
    documents.delete(catalog, "docs", "0")
    add("docs", ["gamma new"], ids=["2"])
    assert _scores(catalog, "docs", "secret old") == []
    while merging.step():
        pass
    with catalog.read() as transaction:
        terms = {term for (listed,) in transaction.rows("SELECT terms FROM word_blocks") for term in listed.split("\n")}
    assert terms == {"beta", "gamma", "new"}
    assert _rows(catalog, "word_removals") == 0


def test_removals_are_forgotten_also_where_large_segments_have_none(make, add, catalog, monkeypatch):
    """Every question reads all removals that are listed."""
    monkeypatch.setattr(merging_module, "FEW_WORDS", 0)
    merging = WordMerging(catalog, lambda: 0.0)
    make("docs")
    add("docs", ["alpha old"])
    add("docs", ["beta", "gamma"], ids=["1", "2"])
    documents.delete(catalog, "docs", "2")
    while merging.step():
        pass
    assert (_rows(catalog, "word_segments"), _rows(catalog, "word_removals")) == (2, 0)
    assert {found for found, _ in _scores(catalog, "docs", "alpha beta gamma")} == {"0", "1"}
    documents.delete(catalog, "docs", "0")
    assert [found for found, _ in _scores(catalog, "docs", "alpha beta gamma")] == ["1"]


def test_a_merge_waits_for_its_turn_to_write_without_reading(make, add, catalog, monkeypatch):
    """On PostgreSQL an erasure rewrites the tables: that waits for readers, and writers wait for it."""
    now, written = [0.0], []
    merging = WordMerging(catalog, lambda: now[0], merged_at_once=4)
    commit = catalog.commit

    def committing(operation):
        written.append(catalog.oldest_snapshot_seconds())
        now[0] += 100
        return commit(operation)

    def step():
        with monkeypatch.context() as patched:
            patched.setattr(catalog, "commit", committing)
            return merging.step()

    monkeypatch.setattr(catalog, "_clock", count(step=1).__next__)
    make("docs")
    for number in range(4):
        add("docs", [f"alpha word{number}"], ids=[str(number)])
    assert step()  # four of a size
    add("docs", ["alpha"], ids=["4"])
    assert not step()
    now[0] += 100
    assert step()  # few words, and quiet
    documents.delete(catalog, "docs", "0")
    now[0] += 100
    assert step()  # words that were taken out
    assert written == [0, 0, 0]


def test_writes_during_a_merge_of_segments_are_not_lost(make, add, catalog, merging, monkeypatch, tmp_path):
    make("docs")
    add("docs", ["alpha one", "alpha two"])
    add("docs", ["alpha three"], ids=["2"])

    def meanwhile(segments):
        merged = merge(segments)
        monkeypatch.setattr(merging_module, "merge", merge)
        add("docs", ["beta"], ids=["0"])
        documents.delete(catalog, "docs", "1")
        add("docs", ["alpha four"], ids=["3"])
        return merged

    monkeypatch.setattr(merging_module, "merge", meanwhile)
    assert merging.step()
    assert sorted(found for found, _ in _scores(catalog, "docs", "alpha")) == ["2", "3"]
    if catalog.kind == "sqlite":
        check_tables(tmp_path / "catalog.sqlite")


def test_a_collection_that_is_deleted_while_its_segments_are_merged_stays_deleted(
    make, add, catalog, merging, monkeypatch
):
    make("docs")
    add("docs", ["alpha one"])
    add("docs", ["alpha two"], ids=["1"])

    def meanwhile(segments):
        merged = merge(segments)
        catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, "docs"))
        return merged

    monkeypatch.setattr(merging_module, "merge", meanwhile)
    merging.step()
    assert [_rows(catalog, table) for table in ("word_segments", "word_blocks")] == [0, 0]


@given(TEXTS, st.randoms())
def test_a_segment_is_read_as_it_was_written(texts, random):
    rows = [WordRow(number, "A Title", text, "a tag", "en") for number, text in enumerate(texts)]
    segment = segment_of(rows, STEMMER)
    stored = list(blocks(segment))
    read = joined(segment.layout, [decoded(block) for block in stored])
    _assert_equal(read, segment)
    ends = np.cumsum(segment.counts)
    for number, term in enumerate(segment.terms):
        block = [block for block in stored if block.first_term <= term][-1]
        mine = segment.occurrences[ends[number] - segment.counts[number] : ends[number]]
        assert occurrences_in(block, term).tolist() == mine.tolist()
    assert len(occurrences_in(stored[0], "nowhere")) == 0
    alive = np.array([random.random() < 0.5 for _ in texts])
    kept = merge([(segment, alive)])
    _assert_equal(kept, segment_of([row for row, lives in zip(rows, alive, strict=True) if lives], STEMMER))
    place = random.randrange(len(rows) + 1)
    _assert_equal(
        merge([(segment_of(rows[:place], STEMMER), None), (segment_of(rows[place:], STEMMER), None)]), segment
    )


def test_a_word_that_is_everywhere_has_a_block_of_its_own():
    segment = segment_of([WordRow(1, "", "aa " + "common " * 10_000 + "zz " + "rare " * 10, "", "en")], STEMMER)
    assert [block.terms for block in blocks(segment)] == ["aa", "common", "rare\nzz"]


def _assert_equal(found: Segment, expected: Segment):
    assert found.terms == expected.terms
    assert found.counts.tolist() == expected.counts.tolist()
    assert found.occurrences.tolist() == expected.occurrences.tolist()
    assert found.layout.positions.tolist() == expected.layout.positions.tolist()
    assert found.layout.lengths.tolist() == expected.layout.lengths.tolist()


class OneSegment:
    """A catalogue whose segments have 250,000 documents each; `read` are those that were read."""

    def __init__(self):
        self.read = []

    def row(self, sql, parameters):
        self.read.append(parameters[0])
        return np.arange(250_000, dtype="<i8").tobytes(), np.ones((250_000, FIELDS), dtype="<u4").tobytes()


def test_the_layouts_of_a_million_documents_are_read_once():
    layouts, stored = Layouts(), OneSegment()
    for number in [1, 2, 3, 4] * 2:
        assert len(layouts.read(stored, number).positions) == 250_000
    assert stored.read == [1, 2, 3, 4]
