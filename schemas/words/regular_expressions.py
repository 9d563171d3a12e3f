"""Regular expressions of callers: those of Rust's `regex` crate, which Chroma has, too.

Classes, boundaries and case are Unicode's, and matching takes time that is linear in the text, whatever they say. The
crate comes with pydantic, whose validators of strings are the one way to it in Python that is widely used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator

MAX_PATTERN_CHARACTERS = 10_000
MAX_JOINED = 16
"""The most expressions that `patterns_of` makes."""

_REASON = re.compile(r"^error: (.+)", re.MULTILINE)
_PLACE = re.compile(r"^(?P<shown>    .*)\n(?P<before> +)(?P<marks>\^+)$", re.MULTILINE)
"""An expression of one line, and below it what marks the part that is wrong."""


class BadPatternError(ValueError):
    """A text is no regular expression; the message says why."""


@lru_cache(maxsize=64 + MAX_JOINED)  # as many as a filter may have: each takes up to 10 MB
def compiled(pattern: str) -> Callable[[str], bool]:
    """Return what says whether the expression matches anywhere in a text. Raises BadPatternError."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadPatternError(f"it has more than {MAX_PATTERN_CHARACTERS:,} characters")
    try:
        pattern.encode()
        validator = SchemaValidator({"type": "str", "pattern": pattern, "regex_engine": "rust-regex", "strict": True})
    except UnicodeError:
        raise BadPatternError("it is not Unicode") from None
    except SchemaError as error:
        raise BadPatternError(_reason(str(error))) from None
    return validator.isinstance_python


def matches(pattern: str, text: str) -> bool:
    """Return whether the expression matches anywhere in the text. Raises BadPatternError."""
    return compiled(pattern)(text)


def patterns_of(parts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return (expressions, parts that are in none of them): a text that contains any of the other parts is matched by
    one of the expressions, which takes as long for thousands of parts as for a few."""
    patterns: list[str] = []
    left: list[str] = []
    for part in parts:
        escaped = re.escape(part)
        if patterns and len(patterns[-1]) + len(escaped) < MAX_PATTERN_CHARACTERS:
            patterns[-1] += f"|{escaped}"
        elif len(patterns) < MAX_JOINED and len(escaped) <= MAX_PATTERN_CHARACTERS:
            patterns.append(escaped)
        else:
            left.append(part)
    return patterns, left


def _reason(said: str) -> str:
    """Return the reason and the place that the crate tells in several lines."""
    reason = _REASON.search(said)
    if reason is None:
        return "it is too large: repeat less" if "size limit" in said else "it cannot be read"
    place = _PLACE.search(said)
    if place is None:
        return reason[1]
    start, end = place.span("marks")
    start, end = start - place.start("before"), end - place.start("before")
    return f"{reason[1]}: '{place['shown'][start:end]}', at character {start - 3}"
