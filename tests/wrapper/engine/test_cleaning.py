"""Chroma's database is cleaned of what was deleted, once for each request."""

import sqlite3
from contextlib import closing

import pytest

from wrapper.engine.keeper.cleaning import (
    clean,
    cleaning_failed,
    cleaning_is_asked,
    cleaning_state,
    request_cleaning,
    retry_cleaning,
)
from wrapper.engine.keeper.directory import DATABASE

MARKER = "zqmarker"


@pytest.fixture
def database(tmp_path):
    """A database with Chroma's tables, from which a text was deleted, and a log of a collection that is gone."""
    path = tmp_path / DATABASE
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(
            """CREATE TABLE collections (id TEXT, config_json_str TEXT, schema_str TEXT);
            CREATE TABLE collection_metadata (collection_id TEXT, key TEXT, str_value TEXT);
            CREATE TABLE segments (id TEXT, scope TEXT, collection TEXT);
            CREATE TABLE segment_metadata (segment_id TEXT, key TEXT, str_value TEXT);
            CREATE TABLE embeddings_queue (topic TEXT, metadata TEXT);
            CREATE VIRTUAL TABLE embedding_fulltext_search USING fts5(string_value, tokenize='trigram');"""
        )
        kept, gone = "a" * 36, "b" * 36
        connection.execute("INSERT INTO collections (id) VALUES (?)", [kept])
        log = [(f"persistent://default/default/{kept}", "kept"), (f"persistent://default/default/{gone}", MARKER)]
        connection.executemany("INSERT INTO embeddings_queue VALUES (?, ?)", log)
        texts = [(f"{MARKER} {number}" if number < 100 else f"plain {number}",) for number in range(200)]
        connection.executemany("INSERT INTO embedding_fulltext_search VALUES (?)", texts)
        connection.commit()
        connection.execute("DELETE FROM embedding_fulltext_search WHERE rowid <= 100")
        connection.commit()
    return path


def test_nothing_is_left_of_what_was_deleted(tmp_path, database):
    assert MARKER.encode() in database.read_bytes()
    request_cleaning(tmp_path)
    clean(tmp_path, lambda _: None, lambda: False)
    assert not cleaning_is_asked(tmp_path)
    assert not cleaning_failed(tmp_path)
    content = database.read_bytes()
    assert MARKER.encode() not in content
    assert b"zqm" not in content  # the index of every three letters
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT metadata FROM embeddings_queue").fetchall() == [("kept",)]
        assert connection.execute("SELECT count(*) FROM embedding_fulltext_search").fetchone() == (100,)


def test_an_interrupted_cleaning_stays_asked_for(tmp_path, database, monkeypatch):
    monkeypatch.setattr("wrapper.engine.keeper.cleaning.INSTRUCTIONS_BETWEEN_LOOKS", 1)
    request_cleaning(tmp_path)
    clean(tmp_path, lambda _: None, lambda: True)
    assert (cleaning_is_asked(tmp_path), cleaning_failed(tmp_path)) == (True, False)


def test_without_a_request_or_a_database_nothing_is_done(tmp_path, database):
    before = database.read_bytes()
    clean(tmp_path, lambda _: None, lambda: False)
    assert database.read_bytes() == before
    database.unlink()
    request_cleaning(tmp_path)
    clean(tmp_path, lambda _: None, lambda: False)
    assert not cleaning_is_asked(tmp_path)


def test_what_could_not_be_cleaned_is_told_once_and_tried_again_when_that_is_asked_for(tmp_path, database):
    assert cleaning_state(tmp_path) is None
    content, told = database.read_bytes(), []
    database.write_bytes(b"no database " * 1_000)
    request_cleaning(tmp_path)
    assert cleaning_state(tmp_path) == "waiting"
    clean(tmp_path, told.append, lambda: False)
    assert (cleaning_is_asked(tmp_path), cleaning_failed(tmp_path)) == (False, True)
    assert (len(told), cleaning_state(tmp_path)) == (1, "failed")
    database.write_bytes(content)
    retry_cleaning(tmp_path)
    assert (cleaning_state(tmp_path), cleaning_failed(tmp_path)) == ("waiting", False)
    clean(tmp_path, told.append, lambda: False)
    assert cleaning_state(tmp_path) is None
    assert MARKER.encode() not in database.read_bytes()
    retry_cleaning(tmp_path)
    assert cleaning_state(tmp_path) is None
