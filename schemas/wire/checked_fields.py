"""Fields that the bodies and the answers of several contracts share."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.access.owners import Ownership
from schemas.names import check_collection_name, check_full_name
from schemas.wire.body import Body
from schemas.wire.fields import Number, Text

MAX_OWNER_CHARACTERS = 200


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


class FullName(Text):
    """A name of a collection, in full where it is not in the default database."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        name = super()._deserialize(value, attr, data, **options)
        check_full_name(name, field=attr or "name")
        return name


class Flag(fields.Field[bool]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value


class OfOwner(Body):
    """The owner whose thing is meant, where several callers may have one of the same name."""

    of_owner = Text(data_key="owner", load_default=None, validate=validate.Length(max=MAX_OWNER_CHARACTERS))


OF_OWNER = OfOwner()


def ownership(of: Ownership) -> dict[str, Any]:
    return {"owner": of.owner, "shared": of.is_shared}
