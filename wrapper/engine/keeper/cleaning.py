"""Removal of deleted documents from Chroma's files, where deleting alone leaves their bytes.

Chroma deletes rows. Their bytes stay in free pages and in the write-ahead log, and the index of every three letters of
every text keeps the letters of deleted texts until its parts are merged; saved indexes hold memory in which texts were
once. Whoever wants them gone leaves a request in the data directory; the keeper stops the engine, cleans its files and
starts it again. Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from wrapper.engine.keeper.directory import DATABASE
from wrapper.engine.keeper.leftovers import has_table
from wrapper.engine.keeper.sqlite_tuning import WORDS
from wrapper.engine.keeper.unused_memory import blank_unused

REQUEST_FILE = "engine-clean"
FAILED_FILE = "engine-clean.failed"
TIMEOUT_SECONDS = 5.0
INSTRUCTIONS_BETWEEN_LOOKS = 1_000_000


def request_cleaning(data_dir: Path) -> None:
    """Ask the keeper to clean the engine's files. A request that is there already stands for this one, too."""
    with suppress(FileNotFoundError):
        (data_dir / FAILED_FILE).unlink()
    (data_dir / REQUEST_FILE).touch()


def cleaning_is_asked(data_dir: Path) -> bool:
    """Return whether a request waits to be done."""
    return (data_dir / REQUEST_FILE).exists()


def retry_cleaning(data_dir: Path) -> None:
    """Ask again for what could not be done."""
    with suppress(FileNotFoundError):
        os.replace(data_dir / FAILED_FILE, data_dir / REQUEST_FILE)


def cleaning_failed(data_dir: Path) -> bool:
    """Return whether the last request could not be done."""
    return (data_dir / FAILED_FILE).exists()


def cleaning_state(data_dir: Path) -> str | None:
    """Return `waiting` while a request is to be done, `failed` when the last one could not be, else None."""
    if cleaning_is_asked(data_dir):
        return "waiting"
    return "failed" if cleaning_failed(data_dir) else None


def clean(data_dir: Path, log: Callable[[str], None], interrupted: Callable[[], bool]) -> None:
    """Do what a waiting request asks for, while no engine has the files open.

    The request stays when `interrupted` returned true meanwhile, and counts as failed when the files could not be
    cleaned: the engine would otherwise be stopped for it again and again.
    """
    if not cleaning_is_asked(data_dir):
        return
    path = data_dir / DATABASE
    try:
        if path.exists():
            _rewrite(path, interrupted)
    except (sqlite3.Error, OSError, ValueError) as exc:
        if interrupted():
            return
        log(f"{path.parent.name} could not be cleaned: {exc}")
        os.replace(data_dir / REQUEST_FILE, data_dir / FAILED_FILE)
        return
    (data_dir / REQUEST_FILE).unlink()
    log(f"{path.parent.name}: cleaned of what was deleted")


def _rewrite(path: Path, interrupted: Callable[[], bool]) -> None:
    with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS, isolation_level=None)) as connection:
        connection.set_progress_handler(interrupted, INSTRUCTIONS_BETWEEN_LOOKS)
        if has_table(connection, "embeddings_queue") and has_table(connection, "collections"):
            # What was written to a collection that is gone; topics end with the collection's id.
            connection.execute(
                "DELETE FROM embeddings_queue WHERE substr(topic, -36) NOT IN (SELECT id FROM collections)"
            )
        if has_table(connection, "segments"):
            blank_unused(path.parent, connection)
        if has_table(connection, WORDS):
            connection.execute(f"INSERT INTO {WORDS} ({WORDS}) VALUES ('optimize')")
        connection.execute("VACUUM")
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("another process has it open")
