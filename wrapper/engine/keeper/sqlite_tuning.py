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

LEAN = {
    WORDS: (
        f"CREATE VIRTUAL TABLE {WORDS} USING fts5(string_value, tokenize='trigram')",
        (
            f"DROP TABLE {WORDS}",
            f"CREATE VIRTUAL TABLE {WORDS} USING fts5(string_value, tokenize='trigram', detail=none)",
        ),
    ),
    "embedding_metadata_string_value": (
        "CREATE INDEX embedding_metadata_string_value ON embedding_metadata (key, string_value) "
        "WHERE string_value IS NOT NULL",
        (
            "DROP INDEX embedding_metadata_string_value",
            "CREATE INDEX embedding_metadata_string_value ON embedding_metadata (key, string_value) "
            "WHERE string_value IS NOT NULL AND key = ''",
        ),
    ),
}
"""What Chroma makes, by name: how, and what is made in its place while the database has no documents.

The index of letters is there without the places of each, which Chroma never asks for; the index of strings, in which
each text would stand as a whole for a second time, has those of no key. Each keeps its name, so that migrations of
later releases find it. An add gets a quarter cheaper and the file less than half as large (`docs/engine.md`)."""


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


def tune_tables(data_dir: Path, log: Callable[[str], None]) -> None:
    """Apply `LEAN` and `WORD_SETTINGS`, once an engine has made or migrated its tables and before it is given work."""
    path = data_dir / DATABASE
    try:
        with closing(sqlite3.connect(path, timeout=TIMEOUT_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("SELECT 1 FROM embedding_metadata LIMIT 1").fetchone() is None:
                for name, (made, instead) in LEAN.items():
                    # Another release may make it otherwise, and has its reasons.
                    if _how_made(connection, name) == made:
                        for statement in instead:
                            connection.execute(statement)
            now = dict(connection.execute(f"SELECT k, v FROM {WORDS}_config"))
            for name, value in WORD_SETTINGS.items():
                if now.get(name) != value:
                    connection.execute(f"INSERT INTO {WORDS} ({WORDS}, rank) VALUES (?, ?)", (name, value))
            connection.execute("COMMIT")
    except sqlite3.Error as exc:
        log(f"{path.name}: its tables could not be tuned: {exc}")


def _how_made(connection: sqlite3.Connection, name: str) -> str | None:
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return None if row is None else " ".join(row[0].split())
