"""The chunk, the result of every profile."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    section: heading path "A > B", "" when no heading is above. section_id: its slug path, unique in the document.
    chunk_index: position in the document, from 0. start_line: from 1.
    """

    text: str
    section: str
    section_id: str
    chunk_index: int
    start_line: int
