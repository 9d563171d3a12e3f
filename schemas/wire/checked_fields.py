"""Fields that the bodies of several contracts share."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields

from schemas.names import check_collection_name
from schemas.wire.fields import Number, Text


class Words(Text):
    """A string that is not blank."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not text.strip():
            raise ValidationError("must not be blank")
        return text


class Share(Number):
    """A number from 0 to 1."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> float:
        number = super()._deserialize(value, attr, data, **options)
        if not 0.0 <= number <= 1.0:
            raise ValidationError("must be between 0 and 1")
        return number


class CollectionName(Text):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        return check_collection_name(super()._deserialize(value, attr, data, **options), field=attr or "name")


class Flag(fields.Field[bool]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value
