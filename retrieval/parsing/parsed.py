"""What a parser gives: a text with what belongs to it, or the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import InvalidInputError

UNSUPPORTED_KIND = "unsupported_kind"
ENCRYPTED = "encrypted"
TOO_LARGE = "too_large"
TOO_SLOW = "too_slow"
TOO_MUCH_MEMORY = "too_much_memory"
UNREADABLE = "unreadable"
EMPTY = "empty"

_MOST_TAGS = 100
_SEPARATORS = re.compile(r"[,;]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?![A-Za-z])")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


class UnreadableError(InvalidInputError):
    """A file gives no text. `code` is one of those above; the message is one line and names no path."""

    def __init__(self, message: str, code: str = UNREADABLE) -> None:
        super().__init__(message, code=code)


@dataclass(slots=True)
class Parsed:
    """The text of a file, which is Markdown for every kind with structure.

    `metadata` is what the file says of itself: author, tags, language, front matter. `marks` are (line from 1, what
    holds from there on), ascending: `{"page": 3}`, `{"sheet": "Q1"}` or `{"slide": 2}`. `warnings` are sentences about
    what was left out.
    """

    text: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    marks: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    pages: int | None = None
    warnings: list[str] = field(default_factory=list)


def told(author: str = "", tags: Any = (), language: str = "") -> dict[str, Any]:
    """Return as metadata what a file says of itself."""
    found = {
        "author": " ".join(author.split()),
        "tags": tags_of(tags)[:_MOST_TAGS],
        "language": language_of(language),
    }
    return {name: value for name, value in found.items() if value}


def tags_of(value: Any) -> list[str]:
    """Return tags, which may also be written as one text, with commas or semicolons between them."""
    if isinstance(value, str):
        value = _SEPARATORS.split(value)
    given = value if isinstance(value, list | tuple) else [value]
    tags = (" ".join(str(tag).split()) for tag in given if isinstance(tag, str | int | float))
    return list(dict.fromkeys(tag for tag in tags if tag))


def language_of(value: Any) -> str | None:
    """Return the primary tag of a language, such as "de" for "de-AT"; None when it is none."""
    found = _LANGUAGE.match(value) if isinstance(value, str) else None
    return found[0].lower() if found else None


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair and U+0000 become U+FFFD."""
    return _SURROGATES.sub("\ufffd", text).replace("\0", "\ufffd")
