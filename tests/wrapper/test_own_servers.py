"""Which servers hold this service's data, and where they are now; commands take no other catalogue for that of a data
directory, and know their own however its mark was saved."""

import os

import pytest

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.postgres.database import PostgresDatabase
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.catalogue_mark import MARK_FILE, check_mark, is_marked, mark
from wrapper.engine.keeper.state import EngineState, EngineStateReader, start_time, write_state
from wrapper.engine_choice import engine_servers


def test_the_engine_is_where_its_keeper_says_now(tmp_path):
    settings, state = WrapperSettings(data_dir=tmp_path), EngineStateReader(tmp_path)
    assert engine_servers(settings, state) == []
    for stage, port in (("starting", 8001), ("ready", 8001), ("unresponsive", 8001), ("starting", 8002)):
        url = f"http://127.0.0.1:{port}"
        write_state(tmp_path, EngineState(stage, url, os.getpid(), start_time(os.getpid())))
        assert engine_servers(settings, state) == [("127.0.0.1", port)]
    write_state(tmp_path, EngineState("stopped"))
    assert engine_servers(settings, state) == []


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://chroma.internal:8000", ("chroma.internal", 8000)),
        ("https://Chroma.example/base", ("chroma.example", 443)),
    ],
)
def test_an_engine_of_the_operators_is_where_the_settings_say(tmp_path, url, server):
    assert engine_servers(WrapperSettings(data_dir=tmp_path, chroma_url=url), EngineStateReader(tmp_path)) == [server]


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://rag:secret@db.internal/rag", [("db.internal", 5432)]),
        ("postgresql://rag@[::1]:6432/rag", [("::1", 6432)]),
        ("postgresql:///rag?host=/run/postgresql&port=6432", [("localhost", 6432)]),
        ("postgresql://db.internal/rag?hostaddr=10.1.2.3", [("db.internal", 5432), ("10.1.2.3", 5432)]),
        ("postgresql://a:1,b:1/rag", [("a", 1), ("b", 1)]),
    ],
)
def test_a_shared_catalogue_names_its_servers(url, servers):
    assert set(PostgresDatabase(url).servers) == set(servers)


def test_a_catalogue_in_a_file_has_no_server(tmp_path):
    assert SQLiteDatabase(tmp_path / "catalog.sqlite").servers == []


@pytest.fixture
def new_catalog(tmp_path):
    """`new_catalog(name)`: a catalogue in a file of that name."""
    opened = []

    def make(name):
        database = SQLiteDatabase(tmp_path / name)
        opened.append(database)
        catalog = Catalog(database)
        catalog.open()
        return catalog

    yield make
    for database in opened:
        database.close()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_mark_counts_that_was_saved_with_the_end_of_a_line(tmp_path, new_catalog, ending):
    own, other = new_catalog("own"), new_catalog("other")
    mark(tmp_path, own)
    file = tmp_path / MARK_FILE
    file.write_bytes(file.read_bytes() + ending.encode())
    check_mark(tmp_path, own)
    with pytest.raises(ConfigurationError):
        check_mark(tmp_path, other)


def test_an_empty_mark_is_none(tmp_path, new_catalog):
    (tmp_path / MARK_FILE).write_text("\n")
    assert not is_marked(tmp_path)
    check_mark(tmp_path, new_catalog("own"))
