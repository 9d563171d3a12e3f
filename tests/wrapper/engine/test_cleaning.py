"""Chroma's files are cleaned of what was deleted, once for each request; what an index holds of memory that nothing was
written to is blanked, and the index is whole afterwards."""

import json
import shutil
import sqlite3
import subprocess
import sys
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
from wrapper.engine.keeper.directory import CHROMA_DIR, DATABASE
from wrapper.engine.keeper.unused_memory import blank_unused

ELEMENTS, ROOM = 20, 100
"""An engine saves an index of this many elements with room for so many."""
ELEMENT_BYTES = 156
GARBAGE = b"zqmarker and what else was in this memory "
STORE = f"""
for metric in ("cosine", "l2", "ip"):
    configuration = {{"hnsw": {{"space": metric, "sync_threshold": 10, "batch_size": 10}}}}
    stored = client.create_collection(f"by-{{metric}}", configuration=configuration)
    stored.add(ids=[str(each) for each in range({ELEMENTS})], embeddings=[[each, 1, 2, 3] for each in range({ELEMENTS})])
"""
READ = """
found = []
for metric in ("cosine", "l2", "ip"):
    stored = client.get_collection(f"by-{metric}")
    everything = stored.get(include=["embeddings"])
    near = stored.query(query_embeddings=[[3.0, 1.0, 2.0, 3.0]], n_results=5)
    found.append([everything["ids"], everything["embeddings"].tolist(), near["ids"], near["distances"]])
print(json.dumps(found))
"""


def run_engine(data_dir, script):
    """Run lines with a `client` of an engine in a process of its own, and return what they print."""
    first = f"import chromadb, json; client = chromadb.PersistentClient({str(data_dir / CHROMA_DIR)!r})\n"
    done = subprocess.run([sys.executable, "-c", first + script], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    directory = tmp_path_factory.mktemp("written")
    run_engine(directory, STORE)
    return directory


@pytest.fixture
def data_dir(written, tmp_path):
    return shutil.copytree(written, tmp_path / "data")


def files(data_dir, name):
    return sorted((data_dir / CHROMA_DIR).glob(f"*/{name}"))


def segment(data_dir, metric):
    asked = (
        "SELECT s.id FROM segments s JOIN collections c ON c.id = s.collection WHERE s.scope = 'VECTOR' AND c.name = ?"
    )
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        ((found,),) = connection.execute(asked, [f"by-{metric}"]).fetchall()
    return data_dir / CHROMA_DIR / found


def spoil(file, begin):
    """Write garbage from `begin` to the end, as memory that was freed has it."""
    content = file.read_bytes()
    room = len(content) - begin
    assert room > 0
    file.write_bytes(content[:begin] + (GARBAGE * (room // len(GARBAGE) + 1))[:room])


@pytest.mark.slow
def test_the_room_for_more_elements_is_blanked(data_dir):
    before = json.loads(run_engine(data_dir, READ))
    for vectors in files(data_dir, "data_level0.bin"):
        assert vectors.stat().st_size == ROOM * ELEMENT_BYTES
        spoil(vectors, ELEMENTS * ELEMENT_BYTES)
    for metric in ("cosine", "l2", "ip"):
        spoil(segment(data_dir, metric) / "length.bin", ELEMENTS * 4 if metric == "cosine" else 0)
    request_cleaning(data_dir)
    clean(data_dir, lambda _: None, lambda: False)
    assert not cleaning_failed(data_dir)
    assert not any(b"zqm" in file.read_bytes() for file in files(data_dir, "*"))
    assert json.loads(run_engine(data_dir, READ)) == before
    assert before[0][1][3] == pytest.approx([3, 1, 2, 3])


@pytest.mark.parametrize(
    "keep",
    [
        'UPDATE collections SET schema_str = NULL, config_json_str = \'{"hnsw_configuration": {"space": "cosine"}}\'',
        "INSERT INTO collection_metadata (collection_id, key, str_value) SELECT id, 'hnsw:space', 'cosine' FROM collections",
        "INSERT INTO segment_metadata (segment_id, key, str_value) SELECT id, 'hnsw:space', 'cosine' FROM segments",
    ],
)
def test_lengths_stay_wherever_a_release_says_that_they_are_used(data_dir, keep):
    lengths = segment(data_dir, "cosine") / "length.bin"
    written = lengths.read_bytes()[: ELEMENTS * 4]
    assert any(written)
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        connection.execute("UPDATE collections SET schema_str = NULL, config_json_str = '{}'")
        connection.execute(keep)
        blank_unused(data_dir / CHROMA_DIR, connection)
        assert lengths.read_bytes()[: ELEMENTS * 4] == written


def test_what_is_blank_is_not_written(data_dir):
    with closing(sqlite3.connect(data_dir / DATABASE)) as connection:
        blank_unused(data_dir / CHROMA_DIR, connection)
        before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files(data_dir, "*")}
        blank_unused(data_dir / CHROMA_DIR, connection)
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files(data_dir, "*")} == before


def test_an_index_whose_header_cannot_be_read_is_told(data_dir):
    header_file = files(data_dir, "header.bin")[0]
    said = f"chroma could not be cleaned: the index {header_file.parent.name} has no header that can be read"
    for header in (None, b"", b"\2" + bytes(99)):
        header_file.unlink()
        if header is not None:
            header_file.write_bytes(header)
        told = []
        request_cleaning(data_dir)
        clean(data_dir, told.append, lambda: False)
        assert cleaning_failed(data_dir)
        assert told == [said], header
        header_file.touch()


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
