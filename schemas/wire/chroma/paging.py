"""The query strings of Chroma's clients: offsets and limits, and how much of the latest writes a count is to have."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.errors import InvalidInputError
from schemas.wire.fields import NUMERAL

READ_LEVELS = ("index_and_wal", "index_only", "index_and_bounded_wal")


def check_read_level(arguments: Mapping[str, str]) -> None:
    """Raise InvalidInputError for a level that is none. A count here has all writes at any."""
    if arguments.get("read_level", READ_LEVELS[0]) not in READ_LEVELS:
        raise InvalidInputError(
            f"read_level must be one of {', '.join(READ_LEVELS)}", code="invalid_field", field="read_level"
        )


def page_of(arguments: Mapping[str, str]) -> tuple[int, int | None]:
    """Return (offset, limit), None for no limit. Raises InvalidInputError for what is no whole number within bounds."""
    offset, limit = _number(arguments, "offset"), _number(arguments, "limit")
    return offset or 0, limit


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    given = arguments.get(name)
    if given is None:
        return None
    if not NUMERAL.fullmatch(given) or not 0 <= int(given) < 2**31:
        sentence = f"{name} must be a whole number from 0 to {2**31 - 1:,}"
        raise InvalidInputError(sentence, code="invalid_field", field=name)
    return int(given)
