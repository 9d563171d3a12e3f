"""The front matter of Markdown, in YAML between `---` or in TOML between `+++`: metadata, not text."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

import yaml

from retrieval.parsing.parsed import Parsed, language_of, tags_of
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata

MAX_CHARACTERS = 32_768
_MAX_VALUES = 2_000
_MAX_DEPTH = 8
_YAML = re.compile(r"\A---[ \t]*\r?\n(?=[\w\"'-]+[ \t]*:)((?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[ \t]*\r?\n((?:.*\n)*?)\+\+\+[ \t]*(?:\r?\n|\Z)")
_LARGEST_INTEGER = 2**63 - 1


def split_front_matter(text: str) -> Parsed:
    """Take the front matter out of a Markdown text, where its lines become empty, so that no line moves.

    `tags` become a list of strings also where they are written as one string ("a, b"); `lang` and `language` become
    `language`, as a primary tag ("de"). Dates are spelt as ISO 8601 does. What cannot be read stays part of the text,
    with a warning.
    """
    start = text[:MAX_CHARACTERS]
    found = _YAML.match(start) or _TOML.match(start)
    if found is None:
        return Parsed(text)
    try:
        read = yaml.safe_load(found[1]) if start.startswith("-") else tomllib.loads(found[1].replace("\r\n", "\n"))
        metadata = _plain(read, iter(range(_MAX_VALUES)), _MAX_DEPTH)
        if not isinstance(metadata, dict):
            return Parsed(text)
        check_metadata(metadata)
    except (yaml.YAMLError, ValueError, RecursionError, InvalidInputError):
        return Parsed(text, warnings=["The front matter cannot be read: it stays part of the text"])
    title = metadata.pop("title", None)
    if "tags" in metadata:
        metadata["tags"] = tags_of(metadata["tags"])
    language = language_of(metadata.pop("lang", None)) or language_of(metadata.pop("language", None))
    if language:
        metadata["language"] = language
    return Parsed(
        text="\n" * found[0].count("\n") + text[found.end() :],
        title=" ".join(str(title).split()) or None if isinstance(title, str | int | float) else None,
        metadata={name: value for name, value in metadata.items() if value is not None},
    )


def _plain(value: Any, budget: Iterator[int], depth: int) -> Any:
    """Return a value of JSON. Raises ValueError for too many values (YAML can name one part many times) or levels."""
    if next(budget, None) is None or depth < 0:
        raise ValueError("too much")
    match value:
        case dict():
            return {str(name): _plain(inner, budget, depth - 1) for name, inner in value.items()}
        case list() | tuple() | set():
            return [_plain(inner, budget, depth - 1) for inner in value]
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) <= _LARGEST_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date() | time():
            return value.isoformat()
    return None
