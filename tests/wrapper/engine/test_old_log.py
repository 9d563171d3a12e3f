"""Log entries of Chroma 0.6 for documents without text are removed before a newer Chroma reads them."""

import json
import sqlite3
from contextlib import closing

from wrapper.engine.keeper.old_log import mend_old_log


def _write(path, entries):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE embeddings_queue (seq_id INTEGER PRIMARY KEY, metadata TEXT)")
        connection.executemany("INSERT INTO embeddings_queue (metadata) VALUES (?)", [(each,) for each in entries])


def test_only_texts_that_are_null_are_taken_out(tmp_path):
    kept = [{"chroma:document": "chroma:document is null"}, {"n": None}, {"a": '"chroma:document": null'}]
    path = tmp_path / "chroma" / "chroma.sqlite3"
    _write(path, [*map(json.dumps, kept), '{"n": 1, "chroma:document": null}', None])
    said = []
    mend_old_log(tmp_path, said.append)
    mend_old_log(tmp_path, said.append)
    with closing(sqlite3.connect(path)) as connection:
        found = [row[0] for row in connection.execute("SELECT metadata FROM embeddings_queue ORDER BY seq_id")]
    assert [each and json.loads(each) for each in found] == [*kept, {"n": 1}, None]
    assert len(said) == 1
    assert "mended 1 " in said[0]


def test_a_log_without_anything_to_mend_is_not_mentioned(tmp_path):
    said = []
    mend_old_log(tmp_path, said.append)
    assert not (tmp_path / "chroma").exists()
    path = tmp_path / "chroma" / "chroma.sqlite3"
    path.parent.mkdir()
    path.touch()
    mend_old_log(tmp_path, said.append)
    assert said == []
