"""Attributes of files and metadata of stores: a few named values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields

from schemas.contracts.vector_stores import LANGUAGE, OWN_NAMES, attribute_name, stored_name
from schemas.records import Metadata

MAX_PAIRS, MAX_KEY_CHARACTERS, MAX_VALUE_CHARACTERS = 16, 64, 512


class Pairs(fields.Field[dict[str, Any]]):
    """Up to 16 texts by name."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        if len(value) > MAX_PAIRS:
            raise ValidationError(f"must have at most {MAX_PAIRS} pairs")
        for key, each in value.items():
            if not 1 <= len(key) <= MAX_KEY_CHARACTERS:
                raise ValidationError(f"must have keys of 1 to {MAX_KEY_CHARACTERS} characters")
            self._check(key, each)
            if isinstance(each, str) and len(each) > MAX_VALUE_CHARACTERS:
                raise ValidationError(f"must have values of at most {MAX_VALUE_CHARACTERS} characters: '{key}'")
        return self._stored(value)

    def _stored(self, pairs: dict[str, Any]) -> dict[str, Any]:
        return dict(pairs)

    def _check(self, key: str, value: Any) -> None:
        if not isinstance(value, str):
            raise ValidationError(f"must have texts as values: '{key}'")


class Attributes(Pairs):
    """Up to 16 texts, numbers and booleans by name, which become metadata of all chunks of a file; by the names of the
    metadata."""

    def _check(self, key: str, value: Any) -> None:
        if not isinstance(value, str | int | float):
            raise ValidationError(f"must have texts, numbers and booleans as values: '{key}'")
        if key.startswith("$") and key[1:] in OWN_NAMES:
            raise ValidationError(f"must have other keys than '{key}', which in a filter is what the service knows")

    def _stored(self, pairs: dict[str, Any]) -> dict[str, Any]:
        return {
            name if name == LANGUAGE and isinstance(value, str) else stored_name(name): value
            for name, value in pairs.items()
        }


def attributes_of(metadata: Mapping[str, Any], *, is_attached: bool) -> Metadata:
    """Return the attributes that a chunk with these metadata tells: of a file that was attached those that its client
    gave or it says of itself, of another document all that are texts, numbers and booleans."""
    plain = {
        name: value
        for name, value in metadata.items()
        if isinstance(value, str | int | float) and not (is_attached and name in OWN_NAMES)
    }
    apart = {attribute_name(name): value for name, value in plain.items() if attribute_name(name) != name}
    return {name: value for name, value in plain.items() if attribute_name(name) == name} | apart
