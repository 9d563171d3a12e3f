"""The paths of the embedded engine's files in the data directory, in the standard library only for the keeper."""

from __future__ import annotations

from pathlib import Path

CHROMA_DIR = Path("chroma")
DATABASE = CHROMA_DIR / "chroma.sqlite3"
