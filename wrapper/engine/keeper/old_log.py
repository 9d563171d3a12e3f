"""Repair of a log that a Chroma from before 1.0 wrote and a newer one cannot read.

Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from wrapper.engine.keeper.directory import DATABASE
from wrapper.engine.keeper.leftovers import has_table

TIMEOUT_SECONDS = 5.0


def mend_old_log(data_dir: Path, log: Callable[[str], None]) -> None:
    """Remove the nulls that Chroma 0.6 wrote for documents without text, while no engine has the database open.

    Chroma 1.5.9 panics on the first of them, and then answers no question about any collection.
    """
    path = data_dir / DATABASE
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as connection, connection:
            if not has_table(connection, "embeddings_queue"):
                return
            mended = connection.execute(
                "UPDATE embeddings_queue SET metadata = json_remove(metadata, '$.\"chroma:document\"') "
                "WHERE metadata LIKE '%chroma:document%null%' "
                "AND json_type(metadata, '$.\"chroma:document\"') = 'null'"
            ).rowcount
    except sqlite3.Error as exc:
        log(f"{path.name}: its log could not be looked through: {exc}")
        return
    if mended:
        log(f"{path.name}: mended {mended} entries of its log that this release cannot read")
