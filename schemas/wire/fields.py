"""The kinds of fields that bodies and query strings are made of."""

from __future__ import annotations

import math
import re
from typing import Any

import orjson
from marshmallow import ValidationError, fields

from schemas.bounds import MAX_IDS
from schemas.documents import check_uri, parse_embedding
from schemas.errors import InvalidFilterError, InvalidInputError
from schemas.metadata import check_collection_metadata, check_metadata
from schemas.names import MAX_MODEL_CHARACTERS, is_model_name
from schemas.records import OrderBy, Vector
from schemas.where import EVERYTHING, Where, parse_where
from schemas.wire.body import Body, Refusal, note_cap
from schemas.wire.json_in import check_named_once, decode

TRUTH = {"true": True, "1": True, "false": False, "0": False}
INCLUDES = ("id", "text", "metadata", "embedding", "distance", "score")
NUMERAL = re.compile(r"[+-]?[0-9]{1,4000}")
"""A whole number in a query string. Python reads no longer one."""
_NO_FRACTION = re.compile(r"(?<=[0-9])\.0+\Z")
"""What a number like `5.0` has behind its digits, which bodies take too."""


class Embedding(fields.Field[Vector]):
    """A vector, float32 (dimension,)."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Vector:
        return parse_embedding(value, field=attr or "embedding")


class Uri(fields.Field[str]):
    """The URI of a document; an empty one is none."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str:
        return check_uri(value) or ""


class Filter(fields.Field[Where]):
    """A `where` tree; its errors carry their own pointer."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where:
        return parse_where(value)


class Filtered(Body):
    """The base of bodies that ask collections: only documents that match `where` are asked."""

    where = Filter(load_default=EVERYTHING)


class FilterText(fields.Field[Where | None]):
    """A `where` tree, written as JSON in a query string. An empty one stands for everything, unless it `must_say`
    something."""

    def __init__(self, *, must_say: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._must_say = must_say

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where | None:
        return where_from_text(value, attr or "where") if value or self._must_say else EVERYTHING


class Choice(fields.Field[str]):
    """One of a few words."""

    def __init__(self, allowed: tuple[str, ...], **options: Any) -> None:
        super().__init__(**options)
        self._allowed = allowed

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str:
        if value not in self._allowed:
            raise ValidationError([Refusal(f"must be one of {', '.join(self._allowed)}", allowed=list(self._allowed))])
        return str(value)


class TruthText(fields.Field[bool]):
    """A boolean in a query string."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool:
        if not isinstance(value, str) or value.lower() not in TRUTH:
            raise ValidationError("must be true or false")
        return TRUTH[value.lower()]


class MetadataObject(fields.Field[dict[str, Any]]):
    """The metadata of a document or of a new collection."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        return check_metadata(value, field=attr or "metadata")


class CollectionMetadata(fields.Field[dict[str, Any]]):
    """A `MetadataObject` within the bounds of collections: the engine handles it with every write."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        return check_collection_metadata(value, field=attr or "metadata")


class Text(fields.Field[str]):
    """A JSON string. No other value is converted to one."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        return value


class ModelName(Text):
    """The name of a model, which is sent to its service unchanged."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not is_model_name(text):
            raise ValidationError(f"must have 1 to {MAX_MODEL_CHARACTERS} printable characters")
        return text


class Number(fields.Field[float]):
    """A finite number. Booleans and numerals in strings are refused."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("must be a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValidationError("must be a finite number")
        return number


class Count(fields.Field[int]):
    """A whole number of at least `least`.

    One above `most` is refused, or becomes `most` when the field is `capped`. A numeral in a string is taken with
    `in_text` only, which is for query strings.
    """

    def __init__(
        self, *, least: int, most: int | None = None, capped: bool = False, in_text: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self._least, self._most, self._capped, self._in_text = least, most, capped, in_text

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> int:
        number = whole_number(value, in_text=self._in_text)
        if number is None:
            raise ValidationError("must be a whole number")
        if number < self._least:
            raise ValidationError(f"must be at least {self._least}")
        if self._most is not None and number > self._most:
            if self._capped:
                note_cap(attr or "", number, self._most)
                return self._most
            raise ValidationError(f"must be at most {self._most}")
        return number


class Names(fields.Field[tuple[str, ...]]):
    """A list of strings, or one string with commas between them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        return _names(value)


class Ordering(fields.Field[tuple[OrderBy, ...]]):
    """An order, `field,-field` or the same as a list; a minus sorts in descending order."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[OrderBy, ...]:
        order = tuple(OrderBy(name.removeprefix("-"), name.startswith("-")) for name in _names(value))
        if any(not item.field for item in order):
            raise ValidationError("must name fields")
        if len(order) > 8:
            raise ValidationError("must name at most 8 fields")
        return order


class Include(Names):
    """The parts of a document that an answer shows."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        names = _names(value)
        for name in names:
            if name not in INCLUDES:
                raise ValidationError(f"must be of {', '.join(INCLUDES)}")
        return names


def check_either(ids: Any, where: Where | None) -> None:
    """Raise ValidationError for both of them, for neither, and for a value that is no list of ids."""
    if (ids is None) == (where is None):
        raise ValidationError("either ids or where is required" if ids is None else "must come without where", "ids")
    if ids is not None:
        check_ids(ids)


def check_ids(ids: Any) -> list[str]:
    """Return `ids` when it is a list of at most `MAX_IDS` non-empty strings.

    Raises InvalidInputError, with the position, when it is not.
    """
    if not isinstance(ids, list):
        raise InvalidInputError("ids must be an array of strings", code="invalid_ids", field="ids")
    if len(ids) > MAX_IDS:
        raise InvalidInputError(
            f"ids must have at most {MAX_IDS:,} elements",
            code="too_many_ids",
            field="ids",
            limit=MAX_IDS,
            actual=len(ids),
        )
    for index, item in enumerate(ids):
        if not isinstance(item, str) or not item:
            raise InvalidInputError("ids must be non-empty strings", code="invalid_ids", field="ids", index=index)
    return ids


def where_from_text(source: str, field: str = "where") -> Where:
    """Return the filter of a query string.

    Raises InvalidInputError, in the words of the contract *storage* ("Invalid JSON filter"), when it is not JSON, and
    for null: a client that has lost its filter writes it, and all documents would match.
    """
    try:
        decoded = decode(source, field)
    except orjson.JSONDecodeError:
        raise InvalidInputError(
            f"Invalid '{field}' filter: must be valid JSON", code="invalid_where", field=field
        ) from None
    check_named_once(source, field)
    if decoded is None:
        raise InvalidFilterError(f"Invalid '{field}' filter: must be an object, not null", field=field, pointer="")
    return parse_where(decoded, field)


def whole_number(value: Any, *, in_text: bool) -> int | None:
    """Return a whole number, None for what is none; with `in_text` also that of a query string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if in_text and isinstance(value, str) and NUMERAL.fullmatch(whole := _NO_FRACTION.sub("", value)):
        return int(whole)
    return None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",") if name.strip()]
    elif isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        names = value
    else:
        raise ValidationError("must be a list of strings, or one with commas between them")
    return tuple(dict.fromkeys(names))
