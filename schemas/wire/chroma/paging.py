"""Offsets and limits in query strings, as Chroma's clients send them."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.errors import InvalidInputError
from schemas.wire.fields import NUMERAL


def page_of(arguments: Mapping[str, str]) -> tuple[int, int | None]:
    """Return (offset, limit), None for no limit. Raises InvalidInputError for what is no whole number from 0."""
    offset, limit = _number(arguments, "offset"), _number(arguments, "limit")
    return offset or 0, limit


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    given = arguments.get(name)
    if given is None:
        return None
    if not NUMERAL.fullmatch(given) or not 0 <= int(given) < 2**31:
        raise InvalidInputError(f"{name} must be a whole number of at least 0", code="invalid_field", field=name)
    return int(given)
