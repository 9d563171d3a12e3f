"""What a parser gives: a text with what belongs to it, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

UNSUPPORTED_KIND = "unsupported_kind"
ENCRYPTED = "encrypted"
TOO_LARGE = "too_large"
TOO_SLOW = "too_slow"
TOO_MUCH_MEMORY = "too_much_memory"
UNREADABLE = "unreadable"
EMPTY = "empty"


class ParseError(Exception):
    """A file gives no text. `code` is one of those above; the message is one line and names no path."""

    def __init__(self, message: str, code: str = UNREADABLE) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(slots=True)
class Parsed:
    """The text of a file, as Markdown. marks: (line from 1, what holds from there on), ascending."""

    text: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    marks: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    pages: int | None = None
    warnings: list[str] = field(default_factory=list)
