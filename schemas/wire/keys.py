"""API keys on the wire: the bodies that make and change them, and the answers about keys and callers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields as fields_of
from datetime import UTC, datetime
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate, validates_schema

from schemas.access.api_keys import DEFAULT_GRACE_SECONDS, MAX_GRACE_SECONDS, MAX_NAME_CHARACTERS, ApiKey, Grant
from schemas.access.callers import Caller, Kind, Limits, Scope
from schemas.errors import InvalidInputError
from schemas.names import MAX_PATTERNS, check_collection_patterns
from schemas.where import EVERYTHING, matches_everything, parse_where, to_json
from schemas.wire.body import ExactBody
from schemas.wire.fields import Count, Number, Text

NEVER = "never"
ALL = "*"

Json = dict[str, Any]


class Scopes(fields.Field[frozenset[Scope]]):
    """The scopes of a key: at least one."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> frozenset[Scope]:
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise ValidationError("must be a list of scopes, with one at least")
        for index, each in enumerate(value):
            if each not in list(Scope):
                allowed = [str(scope) for scope in Scope]
                raise InvalidInputError(
                    f"scopes[{index}] must be one of {', '.join(allowed)}",
                    code="invalid_field",
                    field="scopes",
                    index=index,
                    allowed=allowed,
                )
        return frozenset(map(Scope, value))


class Patterns(fields.Field[tuple[str, ...]]):
    """Names of collections, and beginnings of names with `*` after them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_PATTERNS:
            raise ValidationError(f"must be a list of 1 to {MAX_PATTERNS} names")
        return check_collection_patterns(value, field=attr or "collections")


class RawFilter(fields.Field[Json | None]):
    """A filter as it is given, which is checked, or `*` for none. One that leaves nothing out would be taken for a
    limit."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Json | None:
        if value == ALL:
            return None
        if matches_everything(parse_where(value)):
            raise ValidationError(f"must leave something out; '{ALL}' stands for no filter")
        found: Json = value
        return found


class Moment(fields.Field[datetime]):
    """A time with its zone, in RFC 3339."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> datetime:
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                raise ValidationError("must be a time with a zone, like 2027-01-31T12:00:00Z")
            return moment.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            raise ValidationError("must be a time like 2027-01-31T12:00:00Z") from None


class End(Moment):
    """A time, or `never`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **others: Any) -> Any:
        return NEVER if value == NEVER else super()._deserialize(value, attr, data, **others)


class LimitsOfKey(ExactBody):
    requests_per_second = Number(validate=validate.Range(min=0.001, max=1e6))
    burst = Count(least=1, most=10**6)
    concurrent = Count(least=1, most=10**6)
    documents = Count(least=0, most=2**53)
    bytes = Count(least=0, most=2**53)
    embedded_tokens_per_day = Count(least=0, most=2**53)
    chats_per_day = Count(least=0, most=2**53)

    @validates_schema
    def _has_rate(self, loaded: Json, **_: Any) -> None:
        if "burst" in loaded and "requests_per_second" not in loaded:
            raise ValidationError("must come with requests_per_second", "burst")

    @post_load
    def _to_limits(self, loaded: Json, **_: Any) -> Limits:
        return Limits(**loaded)


class ChangedKey(ExactBody):
    name = Text(validate=validate.Length(min=1, max=MAX_NAME_CHARACTERS))
    scopes = Scopes()
    collections = Patterns()
    where = RawFilter()
    limits = fields.Nested(LimitsOfKey)
    expires_at = End()


class NewKey(ChangedKey):
    name = Text(required=True, validate=validate.Length(min=1, max=MAX_NAME_CHARACTERS))
    scopes = Scopes(required=True)

    @post_load
    def _to_key(self, loaded: Json, **_: Any) -> Json:
        return {"name": loaded["name"], "grant": changed_grant(None, loaded), "expires_at": end_of(loaded, None)}


class Rotation(ExactBody):
    grace_seconds = Count(least=0, most=MAX_GRACE_SECONDS, load_default=DEFAULT_GRACE_SECONDS)


NEW_KEY, CHANGED_KEY, ROTATION = NewKey(), ChangedKey(), Rotation()


def changed_grant(before: Grant | None, given: Json) -> Grant:
    """Return what a key allows after a change: what is not given stays. A filter that is None is lifted, and `*`
    is all collections. Raises InvalidInputError when a key with a filter would do more than read."""
    scopes = given.get("scopes", before.scopes if before else frozenset())
    collections = given.get("collections", before.collections if before else None)
    where = given.get("where", before.where if before else None)
    limits = given.get("limits", before.limits if before else Limits())
    return Grant(scopes, None if collections and ALL in collections else collections, where, limits)


def end_of(given: Json, before: datetime | None) -> datetime | None:
    """Return the end of a key after a change, None for never."""
    ends_at = given.get("expires_at", before)
    return None if ends_at == NEVER else ends_at


def new_key(key: ApiKey, text: str) -> Json:
    """Spell a key that has just been made: the only answer that has its text."""
    shown = api_key(key)
    return {"id": shown.pop("id"), "key": text, **shown}


def api_key(key: ApiKey) -> Json:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": scopes(key.grant.scopes),
        "collections": None if key.grant.collections is None else list(key.grant.collections),
        "where": key.grant.where,
        "limits": limits(key.grant.limits),
        "created_at": time(key.created_at),
        "expires_at": time(key.expires_at),
        "revoked_at": time(key.revoked_at),
        "last_used_at": time(key.last_used_at),
    }


def api_keys(keys: Iterable[ApiKey]) -> Json:
    return {"keys": [api_key(each) for each in keys]}


def revoked_key(key: ApiKey) -> Json:
    return {"status": "revoked", "id": key.id}


def myself(caller: Caller) -> Json:
    """Spell who asks and what they may do."""
    return {
        "id": caller.id,
        "name": caller.name,
        "kind": Kind(caller.kind).value,
        "scopes": scopes(caller.scopes),
        "collections": None if caller.collections is None else list(caller.collections),
        "where": None if caller.where == EVERYTHING else to_json(caller.where),
        "expires_at": time(caller.expires_at),
    }


def scopes(found: Iterable[Scope]) -> list[str]:
    """Return the names of scopes in the order in which the documentation lists them."""
    return [str(each) for each in Scope if each in set(found)]


def limits(found: Limits) -> Json:
    return {each.name: value for each in fields_of(found) if (value := getattr(found, each.name)) is not None}


def time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
