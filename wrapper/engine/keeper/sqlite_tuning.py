"""Settings for Chroma's own database. All of them stay in the file, so nothing of Chroma is patched.

Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from wrapper.engine.keeper.directory import DATABASE

TIMEOUT_SECONDS = 5.0
WORDS = "embedding_fulltext_search"
WORD_SETTINGS = {"automerge": 16, "crisismerge": 64, "hashsize": 8 << 20}
"""The settings of Chroma's index of every three letters of every text. Merging that index later, in larger parts, makes
an add about a tenth cheaper (`docs/engine.md`)."""


def tune_journal(data_dir: Path, log: Callable[[str], None]) -> None:
    """Turn on write-ahead logging, on a directory of any age, while no engine has it open.

    The mode stays in the file, Chroma never resets it, and a file that does not exist yet is made with it. An index for
    paged reads was measured too and left out (docs/engine.md).
    """
    path = data_dir / DATABASE
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as connection:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
    except sqlite3.Error as exc:
        log(f"{path.name} could not be tuned: {exc}")


def tune_words(data_dir: Path, log: Callable[[str], None]) -> None:
    """Apply `WORD_SETTINGS`, once an engine has made or migrated its tables and before it is given work."""
    path = data_dir / DATABASE
    try:
        with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS)) as connection:
            now = dict(connection.execute(f"SELECT k, v FROM {WORDS}_config"))
            with connection:
                for name, value in WORD_SETTINGS.items():
                    if now.get(name) != value:
                        connection.execute(f"INSERT INTO {WORDS} ({WORDS}, rank) VALUES (?, ?)", (name, value))
    except sqlite3.Error as exc:
        log(f"{path.name}: its word index could not be tuned: {exc}")
