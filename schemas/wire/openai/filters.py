"""OpenAI's filters of files by their attributes as the `where` tree."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields

from schemas.contracts.vector_stores import OWN_NAMES, stored_name
from schemas.errors import InvalidFilterError
from schemas.metadata import UNNAMEABLE
from schemas.where import Where, parse_where
from schemas.words.operators import meant

COMPARISONS = {name: f"${name}" for name in ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")}
COMPOUNDS = {"and": "$and", "or": "$or"}


class Filters(fields.Field[Where]):
    """`{type, key, value}`, or `{type: and|or, filters: […]}` of such."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where:
        name = attr or "filters"
        try:
            return parse_where(_as_json(value), name)
        except InvalidFilterError as error:
            # A pointer would lead into what was made of the filter.
            raise InvalidFilterError(error.message, field=name) from None


def _as_json(source: Any) -> Any:
    """Return a filter as one of ours, however deep it is nested."""
    whole = [source]
    left = [whole]
    while left:
        parts = left.pop()
        for place, part in enumerate(parts):
            kind = part.get("type") if isinstance(part, dict) else None
            if not isinstance(kind, str) or kind not in COMPOUNDS:
                parts[place] = _comparison(part, kind)
                continue
            within = part.get("filters")
            if not isinstance(within, list) or not within:
                raise ValidationError(f"must have a list of filters below '{kind}'")
            parts[place] = {COMPOUNDS[kind]: [*within]}
            left.append(parts[place][COMPOUNDS[kind]])
    return whole[0]


def _comparison(source: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(source, dict):
        raise ValidationError("must be an object with a type")
    if not isinstance(kind, str) or kind not in COMPARISONS:
        likely = meant(kind, (*COMPARISONS.values(), *COMPOUNDS.values())) if isinstance(kind, str) else None
        also = "" if likely is None else f": did you mean '{likely[1:]}'?"
        raise ValidationError(f"must have a type of {', '.join((*COMPARISONS, *COMPOUNDS))}{also}")
    key = source.get("key")
    if not isinstance(key, str) or not key:
        raise ValidationError("must name an attribute in key")
    condition = {COMPARISONS[kind]: source.get("value")}
    if key.startswith("$") and key[1:] in OWN_NAMES:
        return {key[1:]: condition}
    stored = stored_name(key)
    if stored == key or key.startswith(UNNAMEABLE):
        return {stored: condition}
    # What the service knows counts for documents of which nobody has said anything by that name.
    said, unsaid = {stored: {**condition, "$exists": True}}, {stored: {"$exists": False}, key: condition}
    return {"$or": [said, unsaid]}
