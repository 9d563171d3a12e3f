"""How much room each part of the service takes on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from wrapper.catalog.catalog import Catalog
from wrapper.catalog.postgres.own_tables import size_bytes

FOLDERS = {
    "engine": "chroma",
    "originals": "originals",
    "uploads": "uploads",
    "files": "files",
    "audit": "audit",
    "question_vectors": "query-embeddings",
}
"""The parts that are folders of the data directory."""


def stored_bytes(data_dir: Path, catalogue: Path | None, catalog: Catalog) -> dict[str, int]:
    """Return the bytes of each part; `catalogue` is the file of the catalogue, None where that is on PostgreSQL."""
    if catalogue is None:
        with catalog.read() as transaction:
            found = {"catalogue": size_bytes(transaction.rows)}
    else:
        found = {"catalogue": _size(catalogue), "catalogue_wal": _size(catalogue.with_name(f"{catalogue.name}-wal"))}
    found |= {part: sum(_sizes(data_dir / folder)) for part, folder in FOLDERS.items()}
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sizes(folder: Path) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _sizes(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield _size(Path(entry.path))
    except OSError:  # it is gone, or there is none yet
        return
