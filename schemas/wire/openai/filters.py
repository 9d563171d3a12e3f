"""OpenAI's filters of files by their attributes as the `where` tree."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields

from schemas.contracts.vector_stores import OWN_NAMES, SIGN, stored_name
from schemas.errors import InvalidFilterError
from schemas.where import Where, parse_where

COMPARISONS = {
    "eq": "$eq",
    "ne": "$ne",
    "gt": "$gt",
    "gte": "$gte",
    "lt": "$lt",
    "lte": "$lte",
    "in": "$in",
    "nin": "$nin",
}
COMPOUNDS = {"and": "$and", "or": "$or"}
MAX_DEPTH = 8


class Filters(fields.Field[Where]):
    """`{type, key, value}`, or `{type: and|or, filters: […]}` of such."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where:
        name = attr or "filters"
        try:
            return parse_where(_as_json(value, name, 0), name)
        except InvalidFilterError as error:
            # A pointer would lead into what was made of the filter.
            raise InvalidFilterError(error.message, field=name) from None


def _as_json(source: Any, name: str, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise ValidationError(f"must not be nested deeper than {MAX_DEPTH} levels")
    if not isinstance(source, dict):
        raise ValidationError("must be an object with a type")
    kind = source.get("type")
    if isinstance(kind, str) and kind in COMPOUNDS:
        parts = source.get("filters")
        if not isinstance(parts, list) or not parts:
            raise ValidationError(f"must have a list of filters below '{kind}'")
        return {COMPOUNDS[kind]: [_as_json(each, name, depth + 1) for each in parts]}
    if not isinstance(kind, str) or kind not in COMPARISONS:
        raise ValidationError(f"must have a type of {', '.join((*COMPARISONS, *COMPOUNDS))}")
    key = source.get("key")
    if not isinstance(key, str) or not key or (key.startswith("$") and key[1:] not in OWN_NAMES):
        raise ValidationError("must name an attribute in key")
    condition = {COMPARISONS[kind]: source.get("value")}
    if key.startswith("$"):
        return {key[1:]: condition}
    stored = stored_name(key)
    if stored == key or key.startswith(SIGN):
        return {stored: condition}
    # What the service knows counts for documents of which nobody has said anything by that name.
    said, unsaid = {stored: {**condition, "$exists": True}}, {stored: {"$exists": False}, key: condition}
    return {"$or": [said, unsaid]}
