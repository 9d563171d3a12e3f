"""Where the embedded engine's files are in the data directory. Standard library only: the keeper imports this."""

from __future__ import annotations

from pathlib import Path

CHROMA_DIR = Path("chroma")
DATABASE = CHROMA_DIR / "chroma.sqlite3"
