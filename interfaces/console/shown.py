"""How pages show values: passages with marked words, numbers, sizes, times and vectors. The rest is escaped text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import Any
from urllib.parse import quote

from flask import Flask
from jinja2.filters import do_filesizeformat

from interfaces.passages.places import heading_of, percentage, place_of, source_of
from interfaces.passages.words import excerpt_around
from schemas.words.comparing import AskedWords

_CITATION = re.compile(r"(\[\d{1,3}\])")
LONGEST_SHOWN = 50_000
"""The most characters of a text on a page."""
LONGEST_VALUE = 200
"""The most characters of a value of a field in a list of them."""
LONGEST_ADDRESS = 12_000
"""The most characters of a link that narrows a page, with all encoded that can be: the page's requests have its value
twice, and 32 KB at most."""
BARS = 96
"""The most values of a vector on a page."""


def init_app(app: Flask) -> None:
    app.jinja_env.filters |= {
        "marked": marked,
        "excerpt": excerpt_around,
        "percentage": percentage,
        "heading": heading_of,
        "place": lambda hit: place_of(source_of(hit), hit["metadata"]),
        # Flask's own leaves quotation marks as they are, for scripts within a page, of which there are none here.
        "tojson": as_json,
        "told": told,
        "counted": counted,
        "size": lambda count: "–" if count is None else do_filesizeformat(count),
        "moment": moment,
        "shortened": shortened,
        "citations": citations,
        "bars": bars,
        "norm": lambda vector: math.hypot(*vector),
    }
    app.jinja_env.globals |= {"longest_shown": LONGEST_SHOWN, "is_askable": is_askable}


def marked(text: str, words: AskedWords) -> list[tuple[str, bool]]:
    """Return the pieces of a text, and whether each is one of the words."""
    edges = [0, *chain.from_iterable(words.places_in(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    return [(piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece]


def citations(message: str) -> list[tuple[str, int | None]]:
    """Return the pieces of an answer, and the number of each that is a citation (`[2]`)."""
    pieces = _CITATION.split(message)
    return [(piece, int(piece[1:-1]) if place % 2 else None) for place, piece in enumerate(pieces)]


def shortened(text: str) -> str:
    """Return a text, or the beginning of one that is too long for a page."""
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:LONGEST_SHOWN]} … ({counted(len(text) - LONGEST_SHOWN)} more characters are not shown)"


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, in one line unless it is indented."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def told(value: Any) -> str:
    """Return a value of a field as its filter has it, but a text without quotation marks, and the beginning of a long
    one. One of nothing but spaces is called empty: it would be a link without a name."""
    if isinstance(value, str):
        if not value.strip():
            return "(empty)"
        return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…"
    return as_json(value)


def is_askable(address: str) -> bool:
    """Return whether a link that narrows a page can be followed: links leave signs as they are that requests encode."""
    return len(quote(address, safe="%+")) <= LONGEST_ADDRESS


def counted(count: int | float | None, thing: str = "") -> str:
    """Return a number with its thousands apart, and of what it is one: "1 page", "2,000 pages"."""
    if count is None:
        return "–"
    return f"{count:,} {thing}{'' if count == 1 else 's'}" if thing else f"{count:,}"


def moment(text: str | None) -> str:
    """Return a time of the wire in a form for people, in UTC; what is none is returned as it is."""
    if not text:
        return "–"
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):  # of a zone that leads out of the years there are
        return text


def bars(vector: Sequence[float]) -> list[tuple[int, float, float]]:
    """Return the first values of a vector as bars, (place, top, height), in a plot 40 high with zero in the middle."""
    highest = max((abs(value) for value in vector[:BARS]), default=0.0) or 1.0
    return [
        (place, round(20 - max(value, 0) / highest * 20, 2), round(abs(value) / highest * 20, 2))
        for place, value in enumerate(vector[:BARS])
    ]
