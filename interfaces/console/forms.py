"""What forms and query strings of pages say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson
from flask import request

from interfaces.console.front_doors import FORM_TOKEN, is_form_token
from interfaces.console.sessions import Session
from schemas.errors import InvalidInputError
from schemas.wire.json_in import decode
from wrapper.web.bodies import MULTIPART, reading

FIELD = "form_token"
MOST_FIELDS = 1_000
DEEPEST_JSON = 64
"""The most levels of JSON that is typed into a form."""


def check_token(session: Session) -> None:
    """Raise InvalidInputError when a form comes from no page of this session, and what `reading` raises."""
    with reading():
        content = request.get_data(parse_form_data=False)
    # Files have ampersands of their own, and Flask counts the parts of such a form.
    if request.mimetype != MULTIPART and content.count(b"&") > MOST_FIELDS:
        raise InvalidInputError(f"A form has at most {MOST_FIELDS} fields", field=FIELD)
    said = request.environ.get(FORM_TOKEN) or request.form.get(FIELD, "")
    if not is_form_token(session, said):
        raise InvalidInputError("This form is no longer valid: load the page again and repeat it", field=FIELD)


def filter_of(text: str, field: str = "where") -> Any:
    """Return the filter that somebody has typed, None for none. Raises InvalidInputError when it is no JSON object."""
    if not text.strip():
        return None
    found = json_of(text, field)
    if not isinstance(found, dict):
        raise InvalidInputError(f'{field} must be a JSON object, such as {{"kind": "pdf"}}', field=field)
    return found or None


def json_of(text: str, field: str) -> Any:
    """Return the JSON that somebody has typed. Raises InvalidInputError when it is none, or is deeper than
    `DEEPEST_JSON`."""
    try:
        found = decode(text, field)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise InvalidInputError(f"{field} is not JSON: {error}", field=field) from None
    level = [found]
    for _ in range(DEEPEST_JSON):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return found
    raise InvalidInputError(f"{field} has more than {DEEPEST_JSON} levels", field=field)


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def number_of(text: str, default: int, *, most: int) -> int:
    """Return a number of a query string between 1 and `most`; what is none, is missing, or is longer than Python reads,
    is the default."""
    return min(max(int(text), 1), most) if text.isascii() and text.isdecimal() and len(text) <= 4_000 else default


def digest_of(shown: Any) -> str:
    """Return what tells whether something is still as somebody has seen it."""
    return hashlib.sha256(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)).hexdigest()
