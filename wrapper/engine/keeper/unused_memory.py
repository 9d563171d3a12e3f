"""Removal of what saved indexes hold of memory that nothing was written to.

Chroma saves an index with room for more elements than it has, as the C library gave that memory: the room may hold
texts of requests that were answered before, of any collection. So may the lengths of vectors, which are written by
cosine alone. Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from pathlib import Path

from wrapper.engine.keeper.index_files import VECTORS

HEADER_FILE, LENGTHS = "header.bin", "length.bin"
VERSION = 1
BLOCK_BYTES = 1 << 20
_HEADER = struct.Struct("<iQQQQ")
"""The beginning of a header: version, offset, room for elements, elements, bytes of each."""
_LENGTH_BYTES = 4

_BY_COSINE = """SELECT s.id FROM segments s JOIN collections c ON c.id = s.collection WHERE s.scope = 'VECTOR' AND (
    replace(c.schema_str, ' ', '') LIKE '%"space":"cosine"%'
    OR replace(c.config_json_str, ' ', '') LIKE '%"space":"cosine"%'
    OR EXISTS (SELECT 1 FROM collection_metadata m
        WHERE m.collection_id = c.id AND m.key = 'hnsw:space' AND m.str_value = 'cosine')
    OR EXISTS (SELECT 1 FROM segment_metadata m
        WHERE m.segment_id = s.id AND m.key = 'hnsw:space' AND m.str_value = 'cosine'))"""
"""The indexes of cosine. Releases before 1.0 keep the metric in metadata; JSON is written with blanks or without."""


def blank_unused(chroma_dir: Path, connection: sqlite3.Connection) -> None:
    """Fill with zeros, in the files of all indexes, what the engine has never written to and will not read.

    `connection` is to the engine's database; no engine may be running. Raises sqlite3.Error, OSError, and ValueError
    when an index has no header that can be read.
    """
    with_lengths = {row[0] for row in connection.execute(_BY_COSINE)}
    for vectors in sorted(chroma_dir.glob(f"*/{VECTORS}")):
        elements, element_bytes = _sizes(vectors.with_name(HEADER_FILE))
        _blank(vectors, elements * element_bytes)
        lengths = vectors.with_name(LENGTHS)
        if lengths.exists():
            _blank(lengths, elements * _LENGTH_BYTES if vectors.parent.name in with_lengths else 0)


def _sizes(header: Path) -> tuple[int, int]:
    """Return (the number of elements, the bytes of each)."""
    try:
        with header.open("rb") as opened:
            version, _, _, elements, element_bytes = _HEADER.unpack(opened.read(_HEADER.size))
    except (FileNotFoundError, struct.error):
        version = None
    if version != VERSION:
        raise ValueError(f"the index {header.parent.name} has no header that can be read")
    return elements, element_bytes


def _blank(file: Path, begin: int) -> None:
    """Fill a file with zeros from `begin` on, in place: its holes stay holes, and what is zero is not written."""
    with file.open("r+b", buffering=0) as opened:
        opened.seek(begin)
        is_changed = False
        while block := opened.read(BLOCK_BYTES):
            if block.strip(b"\0"):
                opened.seek(-len(block), os.SEEK_CUR)
                opened.write(bytes(len(block)))
                is_changed = True
        if is_changed:
            os.fsync(opened.fileno())
