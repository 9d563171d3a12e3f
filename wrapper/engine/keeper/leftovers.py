"""Removal of what Chroma leaves behind when a collection is deleted.

Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from wrapper.engine.keeper.directory import DATABASE

LISTS_TABLE = "embedding_metadata_array"


def remove_leftovers(data_dir: Path, log: Callable[[str], None]) -> None:
    """Remove the index directories and metadata lists of deleted collections, while no engine has them open.

    Chroma 1.5.9 never does, whatever their size, and gives the lists to later documents. Where its database knows no
    segments at all, nothing is removed: then it is the database that is missing.
    """
    path = data_dir / DATABASE
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as connection:
            known = {row[0] for row in connection.execute("SELECT id FROM segments")}
            if known and has_table(connection, LISTS_TABLE):
                with connection:
                    connection.execute(f"DELETE FROM {LISTS_TABLE} WHERE id NOT IN (SELECT id FROM embeddings)")
    except sqlite3.Error:
        return
    if not known:
        return
    for directory in path.parent.iterdir():
        if directory.is_dir() and directory.name not in known and _is_uuid(directory.name):
            shutil.rmtree(directory, ignore_errors=True)
            log(f"removed {directory.name}, the index of a collection that is gone")


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name])
    return found.fetchone() is not None


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
