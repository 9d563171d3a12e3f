"""The base of all marshmallow schemas: shapes in, records out.

A field that is null counts as absent. Unknown names are judged before, by `schemas/field_names.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from marshmallow import EXCLUDE, RAISE, Schema, ValidationError, pre_load
from marshmallow.exceptions import SCHEMA

from schemas.errors import InvalidInputError

_MISSING = "missing data for required field"  # as marshmallow says it
_NOTED: ContextVar[list[str] | None] = ContextVar("numbers that were cut", default=None)
SHOWN_BELOW = 10**12
"""Numbers from here on are not repeated in a sentence."""


class Refusal(str):
    """The sentence of a `ValidationError`, with what `details` of the error have beside the field."""

    details: dict[str, Any]

    def __new__(cls, sentence: str, **details: Any) -> Refusal:
        made = super().__new__(cls, sentence)
        made.details = details
        return made


class Body(Schema):
    """The base of the schemas of JSON bodies and of query strings."""

    class Meta:
        unknown = EXCLUDE

    @pre_load
    def _null_is_absent(self, source: Any, **_: Any) -> dict[str, Any]:
        if not isinstance(source, Mapping):
            raise ValidationError("must be an object")
        return {key: value for key, value in source.items() if value is not None}


class ExactBody(Body):
    """The base of those that know all their names: what is not understood, or said twice, might have been a limit, or a
    precaution."""

    class Meta:
        unknown = RAISE

    error_messages: dict[str, str] = {"unknown": "is unknown"}  # noqa: RUF012


def load(schema: Schema, source: Any) -> dict[str, Any]:
    """Return the checked fields of a decoded body.

    Raises InvalidInputError, naming the first wrong field, when one is wrong.
    """
    if not isinstance(source, Mapping):
        raise InvalidInputError("The body must be a JSON object", code="invalid_body")
    try:
        return cast(dict[str, Any], schema.load(source))
    except ValidationError as error:
        field, reason = _first(error.normalized_messages())
        details = reason.details if isinstance(reason, Refusal) else {}
        raise InvalidInputError(_sentence(field, reason), code="invalid_field", field=field, **details) from None


def _first(messages: Any, path: str = "") -> tuple[str, str]:
    if isinstance(messages, Mapping):
        key, inner = next(iter(messages.items()))
        if key == SCHEMA:  # the object as a whole
            return _first(inner, path)
        return _first(inner, f"{path}.{key}" if path else str(key))
    reason = messages[0] if isinstance(messages, list) else str(messages)
    return path, reason if isinstance(reason, Refusal) else str(reason).rstrip(".")


def _sentence(field: str, reason: str) -> str:
    said = reason[:1].lower() + reason[1:]
    if said == _MISSING:
        return f"{field} is required"
    return f"{field} {said}" if said.startswith(("must ", "is ")) else f"{field}: {reason}"


@contextmanager
def noting_caps() -> Iterator[list[str]]:
    """Collect in the block's list a sentence for each number that a body or query string is loaded with and that is
    cut."""
    noted: list[str] = []
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_cap(field: str, asked: int, most: int) -> None:
    noted = _NOTED.get()
    if noted is not None:
        shown = f" instead of {asked:,}" if asked < SHOWN_BELOW else ""
        noted.append(f"{field} is {most:,}{shown}: one request gets no more")
