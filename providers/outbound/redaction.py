"""Keeps the values behind a connection's placeholders out of everything that is said about it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from schemas.errors import RagError

MIN_SECRET_CHARS = 4
"""The number of characters from which values are hidden: shorter ones keep nothing secret, and would be found in every
word."""
MIN_ENCODED_CHARS = 8
MASK = "***"

_ESCAPE = re.compile("%[0-9A-F]{2}")


class Redactor:
    """Knows values that must not be shown, and how they look in URLs, JSON, HTML and Basic credentials.

    One goes with each connection that is opened. `values` are those it was made with, without surrounding white space.
    A text takes as long with a thousand values as with one; `before` knows the spellings of those that it had.
    """

    def __init__(self, values: Iterable[str] = (), before: Redactor | None = None) -> None:
        # Keys are sent without surrounding white space.
        self.values = frozenset(bare for value in values if len(bare := value.strip()) >= MIN_SECRET_CHARS)
        self._before = {} if before is None else before._spellings

    @cached_property
    def _spellings(self) -> dict[str, list[str]]:
        return {value: self._before.get(value) or list(_spellings(value)) for value in self.values}

    @cached_property
    def _by_beginning(self) -> dict[str, list[str]]:
        """The spellings by their first characters, each after the longer ones."""
        found: dict[str, list[str]] = {}
        for each in sorted({each for spelt in self._spellings.values() for each in spelt}, key=len, reverse=True):
            found.setdefault(each[:MIN_SECRET_CHARS], []).append(each)
        return found

    def __call__(self, value: Any) -> Any:
        """Return a JSON value in which no string holds one of the values: a service may quote what it was sent."""
        if not self.values:
            return value
        if isinstance(value, str):
            return self._masked(value)
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {self(name): self(each) for name, each in value.items()}
        return value

    def clean(self, error: RagError) -> None:
        """Remove the values from an error's sentence and details."""
        if self.values:
            error.message = self(error.message)
            error.details = self(error.details)
            error.args = self(error.args)

    @cached_property
    def _places(self) -> re.Pattern[str]:
        """Finds the places where a spelling may begin, by what the first, the second, … character of one may be."""
        columns = ("".join(sorted(set(column))) for column in zip(*self._by_beginning, strict=True))
        return re.compile("(?=" + "".join(f"[{re.escape(column)}]" for column in columns) + ")")

    def _masked(self, text: str) -> str:
        seen: list[str] = []
        at = 0
        for place in map(re.Match.start, self._places.finditer(text)):
            if place >= at and (likely := self._by_beginning.get(text[place : place + MIN_SECRET_CHARS])):
                found = next((each for each in likely if text.startswith(each, place)), None)
                if found is not None:
                    seen += (text[at:place], MASK)
                    at = place + len(found)
        return "".join((*seen, text[at:])) if seen else text


def _spellings(value: str) -> Iterator[str]:
    yield from (value, escape(value))
    for encoded in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield from (encoded, _ESCAPE.sub(lambda found: found[0].lower(), encoded))
    yield from (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = _core(value.encode(errors="surrogateescape"), offset, encode)
            if len(core) >= MIN_ENCODED_CHARS:
                yield core


def _core(value: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """Return the part of a value's base64 that does not depend on what surrounds the value, as in `user:password`."""
    text = encode(b"\0" * offset + value).decode().rstrip("=")
    is_whole = (offset + len(value)) % 3 == 0
    return text[(0, 2, 3)[offset] : None if is_whole else -1]
