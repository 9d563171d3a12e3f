"""Leftovers of deleted collections, in directories that Chroma itself wrote."""

import sqlite3
from contextlib import closing

import chromadb
import pytest

from wrapper.engine.keeper.leftovers import remove_leftovers


@pytest.fixture
def data_dir(tmp_path):
    """A directory with a deleted collection, which had lists in its metadata, and an existing one."""
    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    kept = client.create_collection("kept", embedding_function=None)
    kept.add(ids=["a"], embeddings=[[1.0, 2.0]], metadatas=[{"tags": ["kept"]}])
    gone = client.create_collection("gone", embedding_function=None)
    gone.add(ids=["b"], embeddings=[[1.0, 2.0]], metadatas=[{"tags": ["gone"]}])
    client.delete_collection("gone")
    client.clear_system_cache()
    return tmp_path


def lists_of(data_dir):
    with closing(sqlite3.connect(data_dir / "chroma" / "chroma.sqlite3")) as connection:
        return [row[0] for row in connection.execute("SELECT string_value FROM embedding_metadata_array")]


def test_lists_of_documents_that_are_gone_and_index_directories_that_nothing_knows_are_removed(data_dir):
    assert lists_of(data_dir) == ["kept", "gone"]
    with closing(sqlite3.connect(data_dir / "chroma" / "chroma.sqlite3")) as connection:
        known = [row[0] for row in connection.execute("SELECT id FROM segments")]
    unknown = "00000000-0000-4000-8000-000000000000"
    for name in (*known, unknown, "somebodys"):
        (data_dir / "chroma" / name).mkdir(exist_ok=True)
    remove_leftovers(data_dir, print)
    assert lists_of(data_dir) == ["kept"]
    left = {path.name for path in (data_dir / "chroma").iterdir() if path.is_dir()}
    assert left == {*known, "somebodys"}


def test_a_directory_without_a_database_is_left_alone(tmp_path):
    (tmp_path / "chroma" / "00000000-0000-4000-8000-000000000000").mkdir(parents=True)
    remove_leftovers(tmp_path, print)
    assert len(list((tmp_path / "chroma").iterdir())) == 1
