"""Regular expressions of callers: in RE2's syntax, matched in time that is linear in the text, whatever they say."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

MAX_PATTERN_CHARACTERS = 10_000
MAX_BYTES = 8 << 20
"""The memory that one expression may take when it is compiled and matched."""


class BadPatternError(ValueError):
    """A text is no regular expression; the message says why."""


@lru_cache(maxsize=128)
def compiled(pattern: str) -> Any:
    """Return an expression with the method `search`. Raises BadPatternError."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise BadPatternError(f"it has more than {MAX_PATTERN_CHARACTERS:,} characters")
    options = re2.Options()
    options.max_mem = MAX_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        said = error.args[0] if error.args else error
        raise BadPatternError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from None


def matches(pattern: str, text: str) -> bool:
    """Return whether the expression matches anywhere in the text. Raises BadPatternError."""
    return compiled(pattern).search(text) is not None
