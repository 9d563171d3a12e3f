"""What we set in Chroma's own database while no engine has it open. Standard library only: the keeper imports this."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

DATABASE = Path("chroma", "chroma.sqlite3")


def tune(data_dir: Path, log: Callable[[str], None]) -> None:
    """Write-ahead logging, on a directory of any age: the mode stays in the file, Chroma never resets it, and a file
    that is not there yet begins with it. An index for paged reads was measured too and left out (docs/engine.md)."""
    path = data_dir / DATABASE
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as connection:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
    except sqlite3.Error as exc:
        log(f"{path.name} could not be tuned: {exc}")
