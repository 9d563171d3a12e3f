"""The files of the embedded engine's indexes: how large they are, and whether one is running away.

Each index is a folder of Chroma's directory. For a document it holds its vector and at most 2 x 16 links
(`data_level0.bin`), its length and label, and for one document in sixteen the links of higher levels
(`link_lists.bin`). An interrupted save can leave offsets that point anywhere: the next save then writes link lists by
the gigabyte (`docs/engine.md`). Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from wrapper.engine.keeper.directory import CHROMA_DIR, DATABASE

VECTORS, LINKS = "data_level0.bin", "link_lists.bin"
SPARE_BYTES = 64 * 1024 * 1024
PER_DOCUMENT_BYTES = 256
"""The bytes that an index keeps of a document beside its vector: measured 140 in `data_level0.bin`, about 110
elsewhere."""
BLOATED = 4
"""The factor by which a sound index may be larger than its documents: deleted and replaced ones keep their place in the
files, so an index that is written to a lot grows."""


def runaway_links(data_dir: Path) -> list[Path]:
    """Return the files of link lists that are larger than their index's vectors by more than `SPARE_BYTES`.

    Sound link lists take a hundredth of the vectors.
    """
    found = []
    for links in (data_dir / CHROMA_DIR).glob(f"*/{LINKS}"):
        with suppress(FileNotFoundError):
            if links.stat().st_size > links.with_name(VECTORS).stat().st_size + SPARE_BYTES:
                found.append(links)
    return found


def most_explained_bytes(documents: int, dimension: int) -> int:
    """Return the most bytes that an index of this many documents takes on disk when it is sound."""
    return SPARE_BYTES + BLOATED * documents * (4 * dimension + PER_DOCUMENT_BYTES)


class IndexFiles:
    """The sizes of the indexes under one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def bytes_of(self, engine_id: str) -> int | None:
        """Return the size of an engine collection's index: 0 while it has no files, None when it is unknown."""
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
