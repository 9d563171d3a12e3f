"""What forms and query strings of pages say."""

from __future__ import annotations

from typing import Any

import orjson
from flask import request

from interfaces.console.front_doors import FORM_TOKEN, is_form_token
from interfaces.console.sessions import Session
from schemas.errors import InvalidInputError

FIELD = "form_token"


def check_token(session: Session) -> None:
    """Raise InvalidInputError when a form comes from no page of this session."""
    said = request.environ.get(FORM_TOKEN) or request.form.get(FIELD, "")
    if not is_form_token(session, said):
        raise InvalidInputError("This form is no longer valid: load the page again and repeat it", field=FIELD)


def filter_of(text: str, field: str = "where") -> Any:
    """Return the filter that somebody has typed, None for none. Raises InvalidInputError when it is no JSON object."""
    if not text.strip():
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"The filter is not JSON: {error}", field=field) from None
    if not isinstance(found, dict):
        raise InvalidInputError('The filter must be a JSON object, such as {"kind": "pdf"}', field=field)
    return found or None


def number_of(text: str, default: int, *, least: int = 1, most: int) -> int:
    """Return a whole number of a query string within its bounds; what is none, or missing, is the default."""
    return min(max(int(text), least), most) if text.isascii() and text.isdecimal() and len(text) < 10 else default
