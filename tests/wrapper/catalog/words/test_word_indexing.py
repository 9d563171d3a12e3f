"""A catalogue of an earlier release, whose words have no headings, tags or languages, is reindexed when it is opened."""

import sqlite3
import subprocess
import sys
from itertools import islice

import pytest
from sqlalchemy.exc import DBAPIError

from tests.support.old_words import forget_words
from tests.wrapper.catalog.conftest import POSTGRESQL, SQLITE
from tests.wrapper.documents import add, create, delete, ids_found, numbered
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.migrations import migrate
from wrapper.catalog.words import old_tables, reindexing

DOCUMENTS = 5
EVERYONE = numbered(DOCUMENTS, "")
NAMES = ("books", "papers", "empty")
KILLED_WHILE_OPENING = """
import sys, time
from pathlib import Path
from wrapper.catalog.words import reindexing
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase

reindexing.DOCUMENTS_AT_ONCE = 2
index_next, left = reindexing.index_next, int(sys.argv[2])

def index_and_stop(transaction):
    global left
    index_next(transaction)
    left -= 1
    while left == 0:
        print("in the middle", flush=True)
        time.sleep(60)

reindexing.index_next = index_and_stop
Catalog(SQLiteDatabase(Path(sys.argv[1]))).open()
"""
"""Opens a catalogue, and stops where the transaction after this many batches is about to be committed."""


@pytest.fixture
def make_old(catalog):
    """`make_old(version=3)`: makes the test's database one of an earlier release.

    Before version 4 there were no headings, before 5 no tags, before 9 each collection had a table on SQLite, and
    before 11 there were no languages.
    """

    def make(version=3):
        create(catalog, *NAMES)
        metadatas = [{"title": f"title{number}", "tags": [f"tag{number}", "tagged"]} for number in range(DOCUMENTS)]
        for name in ("books", "papers"):
            add(catalog, name, EVERYONE, numbered(DOCUMENTS, "text "), metadatas)
        catalog.commit(lambda transaction: forget_words(transaction, version, NAMES, interrupted_in="papers"))

    return make


@pytest.fixture
def old(make_old, open_database, monkeypatch):
    """`old(interrupted_after=0, version=3)`: the same database opened by this release.

    An earlier opening may have been interrupted after that many batches.
    """
    monkeypatch.setattr(reindexing, "DOCUMENTS_AT_ONCE", 2)

    def make(interrupted_after=0, version=3):
        make_old(version)
        database = open_database()
        database.migrate(migrate)
        again = Catalog(database)
        for _ in range(interrupted_after):
            again.commit(reindexing.index_next)
        again.open()
        return again

    return make


def _find_all(catalog):
    for name in ("books", "papers"):
        for word in ("title", "tag"):
            assert [ids_found(catalog, name, f"{word}{n}") for n in EVERYONE] == [[n] for n in EVERYONE]
        assert sorted(ids_found(catalog, name, "text")) == EVERYONE
        assert sorted(ids_found(catalog, name, "tagged")) == EVERYONE
    assert ids_found(catalog, "empty", "text") == []


@pytest.mark.parametrize(("version", "interrupted_after"), [(3, 0), (3, 5), (4, 1), (5, 0), (10, 1), (10, 5)])
def test_every_document_is_found_by_its_title_its_tags_and_its_text(old, interrupted_after, version):
    _find_all(old(interrupted_after, version))


@pytest.mark.slow
@SQLITE
@pytest.mark.parametrize("batches", [1, 4])
def test_a_process_that_is_killed_while_it_reindexes_loses_nothing(make_old, open_database, tmp_path, batches):
    make_old(version=3)
    opening = [sys.executable, "-c", KILLED_WHILE_OPENING, str(tmp_path / "catalog.sqlite"), str(batches)]
    with subprocess.Popen(opening, stdout=subprocess.PIPE, text=True) as process:
        said = next((line for line in process.stdout if line == "in the middle\n"), None)
        process.kill()
    assert said is not None
    again = Catalog(open_database())
    again.open()
    _find_all(again)
    _is_sound_without_old_tables(again)


def _is_sound_without_old_tables(catalog):
    with catalog.read() as transaction:
        names = [
            row[0]
            for row in transaction.rows("SELECT name FROM sqlite_master WHERE name LIKE 'words\\__%' ESCAPE '\\'")
        ]
        assert names == ["words_to_index"]
        assert transaction.rows("PRAGMA integrity_check") == [("ok",)]


@SQLITE
@pytest.mark.parametrize("version", [3, 5])
def test_the_tables_of_earlier_releases_are_dropped_and_their_space_is_free(
    make_old, open_database, version, monkeypatch
):
    monkeypatch.setattr(old_tables, "COLLECTIONS_AT_ONCE", 2)
    make_old(version)
    database = open_database()
    database.migrate(migrate)
    _is_sound_without_old_tables(Catalog(database))
    with database.read() as transaction:
        # Four of a collection's five tables have pages of their own.
        assert transaction.value("PRAGMA freelist_count") >= 4 * len(NAMES)
    again = Catalog(database)
    again.open()
    _find_all(again)


@SQLITE
@pytest.mark.parametrize("parts", [0, 1])
def test_where_the_list_of_tables_cannot_be_written_they_go_one_by_one(make_old, open_database, parts, monkeypatch):
    put_back_by_parts = old_tables._put_back_by_parts

    def refused(*arguments):
        yield from islice(put_back_by_parts(*arguments), parts)
        next(put_back_by_parts(*arguments))
        raise DBAPIError("DELETE", (), sqlite3.OperationalError("table sqlite_master may not be modified"))

    monkeypatch.setattr(old_tables, "COLLECTIONS_AT_ONCE", 2)
    monkeypatch.setattr(old_tables, "_put_back_by_parts", refused)
    make_old(version=5)
    again = Catalog(open_database())
    again.open()
    _find_all(again)
    _is_sound_without_old_tables(again)


@POSTGRESQL
def test_what_earlier_releases_indexed_words_with_on_postgresql_is_dropped(old):
    with old(version=10).read() as transaction:
        assert transaction.value("SELECT to_regclass('words')") is None
        here = "= current_schema()::regnamespace"
        assert transaction.value(f"SELECT count(*) FROM pg_ts_dict WHERE dictnamespace {here}") == 0
        assert transaction.value(f"SELECT count(*) FROM pg_ts_config WHERE cfgnamespace {here}") == 0


def test_it_is_done_once_and_documents_are_removed_and_replaced_like_the_rest(old):
    catalog = old()
    with catalog.read() as transaction:
        assert not reindexing.is_due(transaction)
    delete(catalog, "books", "1")
    add(catalog, "books", ["2"], ["text 2"], [{"title": "other"}])
    assert [ids_found(catalog, "books", query) for query in ("title1", "title2", "other")] == [[], [], ["2"]]
