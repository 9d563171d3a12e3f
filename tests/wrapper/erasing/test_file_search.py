"""The search for what was erased reads the files of the catalogue, which this process has open, too."""

import subprocess
import sys

import pytest

from tests.support.commands import run_command
from tests.support.live import PATIENCE_SECONDS
from wrapper.erasing.file_search import BLOCK_BYTES, search_files

TAKE_FOR_ITSELF = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=0)
try:
    database.execute("PRAGMA journal_mode = DELETE")
except sqlite3.OperationalError as error:
    print(error)
"""
"""SQLite lets only the one connection there is leave the write-ahead log."""


@pytest.mark.slow
def test_another_process_cannot_take_the_catalogue_after_a_search(app, client, filled):
    data_dir = app.extensions["rag.service"].settings.data_dir
    collection = filled()
    word = f"zq{collection}"

    def add(document_id, text):
        body = {"documents": [{"id": document_id, "text": text, "embedding": [1.0, 2.0]}]}
        assert client.post(f"/collections/{collection}/documents", json=body).status_code == 201

    def another_process_opens_and_closes():
        assert run_command("keys", "list", data_dir=data_dir).returncode == 0

    add(word, word)
    found = search_files(data_dir, [word.encode(), b"that nobody " + b"wrote"])
    assert [*found.values()] == [[word.encode()]] * len(found) != []
    assert client.post("/api/erase", json={"collection": collection, "document": word}).status_code == 200

    taken = subprocess.run(
        [sys.executable, "-c", TAKE_FOR_ITSELF, data_dir / "catalog.sqlite"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert (taken.stdout, taken.stderr) == ("database is locked\n", "")

    # One that took itself for the last one would remove the log of this service when it closes the catalogue.
    another_process_opens_and_closes()
    add("b", "kept")
    another_process_opens_and_closes()
    assert client.get(f"/collections/{collection}/documents/b").json["text"] == "kept"


def test_files_are_told_with_what_they_have(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "text").write_bytes(b"..one..")
    (tmp_path / "c").write_bytes(b"..two..")
    (tmp_path / "other").write_bytes(b"..three..two..")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    assert search_files(tmp_path, [b"one", b"two", b"three", b"four"]) == {
        tmp_path / "a" / "b" / "text": [b"one"],
        tmp_path / "c": [b"two"],
        tmp_path / "other": [b"two", b"three"],
    }
    assert search_files(tmp_path, []) == {}


def test_words_across_the_end_of_a_block_and_bytes_that_are_no_text_are_found_or_an_error_tells(tmp_path):
    (tmp_path / "large").write_bytes(bytes(BLOCK_BYTES - 3) + b"across" + b"\xff\xfe")
    found = search_files(tmp_path, [b"across", b"\xff\xfe", b"\xfe\xff"])
    assert found == {tmp_path / "large": [b"across", b"\xff\xfe"]}
    with pytest.raises(OSError, match="NotADirectoryError"):
        search_files(tmp_path / "large", [b"one"])
