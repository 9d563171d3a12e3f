"""What Chroma keeps beside texts is made leaner in a database without documents, and Chroma answers as it did."""

import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from tests.support.live import PATIENCE_SECONDS
from wrapper.engine.keeper.directory import DATABASE
from wrapper.engine.keeper.sqlite_tuning import LEAN, WORD_SETTINGS, WORDS, tune_tables

STRINGS = "embedding_metadata_string_value"
PARTS = ['a "quoted" word', "50%_of it", "Straße", "東京都庁", "plain", "abcdef", "A\nline", ""]
TEXTS = [f"{PARTS[number % len(PARTS)]} {PARTS[number // len(PARTS) % len(PARTS)]} {number}" for number in range(64)]


def tables(path):
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name IN (?, ?)", (WORDS, STRINGS))
        return {name: " ".join(sql.split()) for name, sql in rows}


def words(path):
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute(f"SELECT k, v FROM {WORDS}_config"))


@pytest.fixture
def database(tmp_path):
    """A database as Chroma makes it."""
    path = tmp_path / DATABASE
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE embedding_metadata (id INTEGER, key TEXT NOT NULL, string_value TEXT, PRIMARY KEY (id, key));"
            + ";".join(made for made, _ in LEAN.values())
        )
    return path


def told(data_dir):
    complaints = []
    tune_tables(data_dir, complaints.append)
    return complaints


def test_a_database_without_documents_gets_lean_tables(tmp_path, database):
    assert told(tmp_path) == []
    assert tables(database) == {name: instead[-1] for name, (_, instead) in LEAN.items()}
    assert WORD_SETTINGS.items() <= words(database).items()
    assert told(tmp_path) == []
    assert tables(database) == {name: instead[-1] for name, (_, instead) in LEAN.items()}


def test_a_database_with_documents_keeps_its_tables_and_gets_the_settings(tmp_path, database):
    before = tables(database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("INSERT INTO embedding_metadata VALUES (1, 'chroma:document', 'text')")
        connection.execute(f"INSERT INTO {WORDS} (rowid, string_value) VALUES (1, 'text')")
    assert told(tmp_path) == []
    assert tables(database) == before
    assert WORD_SETTINGS.items() <= words(database).items()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute(f"SELECT string_value FROM {WORDS}").fetchall() == [("text",)]


def test_what_another_release_makes_otherwise_stays(tmp_path, database):
    otherwise = f"CREATE INDEX {STRINGS} ON embedding_metadata (string_value)"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(f"DROP INDEX {STRINGS}; {otherwise}; DROP TABLE {WORDS}")
    assert [WORDS in each for each in told(tmp_path)] == [True]
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE {WORDS} USING fts5(string_value, other, tokenize='trigram')")
    before = tables(database)
    assert told(tmp_path) == []
    assert tables(database) == before
    assert before[STRINGS] == otherwise


def test_tables_in_use_stay_as_they_are(tmp_path, database, monkeypatch):
    monkeypatch.setattr("wrapper.engine.keeper.sqlite_tuning.TIMEOUT_SECONDS", 0.0)
    before = tables(database)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert len(told(tmp_path)) == 1
    assert tables(database) == before


@pytest.fixture(scope="module")
def asked(client):
    """What the engine finds among `TEXTS` by a filter of a plain Chroma client."""
    engine_id = client.create_collection("filters", metric="l2")
    ids = [str(number) for number in range(len(TEXTS))]
    metadatas = [{"part": PARTS[number % len(PARTS)], "number": number} for number in range(len(TEXTS))]
    client.upsert(engine_id, ids, np.eye(len(TEXTS), 4, dtype="<f4"), TEXTS, metadatas)

    def ask(**filters):
        path = f"{client._named(engine_id)}/get"
        found = client._transport.call("POST", path, {"include": [], **filters}, timeout_seconds=PATIENCE_SECONDS)
        return sorted(map(int, found["ids"]))

    return ask


def numbers(is_wanted):
    return [number for number, text in enumerate(TEXTS) if is_wanted(text)]


def test_an_engine_of_ones_own_is_lean(engine_dir, asked):
    assert tables(engine_dir / DATABASE) == {name: instead[-1] for name, (_, instead) in LEAN.items()}
    assert WORD_SETTINGS.items() <= words(engine_dir / DATABASE).items()
    with closing(sqlite3.connect(engine_dir / DATABASE)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    "wanted", ['"quoted"', "50%_of", "0%_o", "Straße", "traß", "東京都", "東京", "x", "e", "abc", "ABC", "plain 50%"]
)
def test_texts_are_found_by_what_they_contain(asked, wanted):
    assert asked(where_document={"$contains": wanted}) == numbers(lambda text: wanted in text)
    assert asked(where_document={"$not_contains": wanted}) == numbers(lambda text: wanted not in text)


@pytest.mark.parametrize("pattern", ["quo.ed", "a[bc]c", "^plain", "6[0-3]$", "Stra(ß|s)e", "cde"])
def test_texts_are_found_by_patterns(asked, pattern):
    assert asked(where_document={"$regex": pattern}) == numbers(re.compile(pattern).search)


def test_metadata_are_found_by_strings_and_numbers(asked):
    plain = [number for number in range(len(TEXTS)) if PARTS[number % len(PARTS)] == "plain"]
    assert asked(where={"part": "plain"}) == plain
    assert asked(where={"part": {"$ne": "plain"}}) == sorted({*range(len(TEXTS))} - {*plain})
    assert asked(where={"$and": [{"part": {"$in": ["plain", "Straße"]}}, {"number": {"$lt": 8}}]}) == [2, 4]
    assert asked(where={"part": ""}) == [number for number in range(len(TEXTS)) if number % len(PARTS) == 7]
