"""The files of the embedded engine's indexes: how large they are, and whether one is running away.

Each index is a folder of Chroma's directory. Of a document it holds its vector and at most 2 x 16 links
(`data_level0.bin`), its length and label, and for one in sixteen the links of higher levels (`link_lists.bin`). A save
that was interrupted can leave offsets that point anywhere: the next one then writes link lists by the gigabyte
(`docs/engine.md`). Standard library only: the keeper imports this.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from wrapper.engine.directory import CHROMA_DIR, DATABASE

VECTORS, LINKS = "data_level0.bin", "link_lists.bin"
SPARE_BYTES = 64 * 1024 * 1024
PER_DOCUMENT_BYTES = 256
"""What an index keeps of a document beside its vector: measured 140 in `data_level0.bin`, about 110 elsewhere."""
BLOATED = 4
"""Deleted and replaced documents keep their place in the files, so an index that is written to a lot grows."""


def runaway_links(data_dir: Path) -> list[Path]:
    """The files of link lists that are larger than their index's vectors, by more than `SPARE_BYTES`: sound ones take
    a hundredth of them."""
    found = []
    for links in (data_dir / CHROMA_DIR).glob(f"*/{LINKS}"):
        with suppress(FileNotFoundError):
            if links.stat().st_size > links.with_name(VECTORS).stat().st_size + SPARE_BYTES:
                found.append(links)
    return found


def most_explained_bytes(documents: int, dimension: int) -> int:
    """What the index of so many documents may take on disk; more wants a reason, and has none."""
    return SPARE_BYTES + BLOATED * documents * (4 * dimension + PER_DOCUMENT_BYTES)


class IndexFiles:
    """The sizes of the indexes under one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def bytes_of(self, engine_id: str) -> int | None:
        """Of the index of one engine collection, 0 while it has no files yet; None when that cannot be said."""
        try:
            with closing(sqlite3.connect(f"file:{self._data_dir / DATABASE}?mode=ro", uri=True)) as connection:
                row = connection.execute(
                    "SELECT id FROM segments WHERE collection = ? AND scope = 'VECTOR'", (engine_id,)
                ).fetchone()
        except sqlite3.Error:
            return None
        if row is None:
            return None
        with suppress(FileNotFoundError):
            return sum(file.stat().st_size for file in (self._data_dir / CHROMA_DIR / row[0]).iterdir())
        return 0
