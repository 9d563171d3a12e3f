"""What reading a file gives: its text with what belongs to it, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.chunking import Syntax
from retrieval.parsing.parsed import (
    EMPTY,
    ENCRYPTED,
    TOO_LARGE,
    TOO_MUCH_MEMORY,
    TOO_SLOW,
    UNREADABLE,
    UNSUPPORTED_KIND,
)
from schemas.errors import InvalidInputError
from schemas.records import Metadata

__all__ = [
    "EMPTY",
    "ENCRYPTED",
    "TOO_LARGE",
    "TOO_MUCH_MEMORY",
    "TOO_SLOW",
    "UNREADABLE",
    "UNSUPPORTED_KIND",
    "Mark",
    "ReadDocument",
    "UnreadableError",
]


class UnreadableError(InvalidInputError):
    """A file gives no text.

    `code` is one of those above; the message is one line and names no path.
    """

    code = UNREADABLE


@dataclass(frozen=True, slots=True)
class Mark:
    """What holds from a line of the text on, counted from 1: `{"page": 3}`, `{"sheet": "Q1"}` or `{"slide": 2}`."""

    line: int
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """The text of a file.

    `text` is Markdown for every kind with structure, so headings and tables are written as Markdown writes them.
    `metadata` is what the file says of itself: author, tags, language, front matter. `marks` ascend by line. `warnings`
    are sentences about what was left out. `has_own_lines`: the line numbers of `text` are those of the file.
    """

    text: str
    syntax: Syntax
    title: str | None = None
    metadata: Metadata = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    pages: int | None = None
    warnings: tuple[str, ...] = ()
    has_own_lines: bool = False
