"""The strings of a configuration, and the kind of field each is in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from schemas.configuration import JsonSchema
from schemas.errors import InvalidInputError
from schemas.json_pointers import escaped

MAX_DEPTH = 32


class Text(NamedTuple):
    """A string of a configuration; `field` is `secret`, `address`, or None for any other kind."""

    pointer: str
    text: str
    field: str | None


def texts(config: Any, schema: JsonSchema) -> list[Text]:
    """Return all strings in their order. Raises InvalidInputError when they are nested too deeply."""
    found: list[Text] = []

    def keep(place: Text) -> str:
        found.append(place)
        return place.text

    mapped(config, schema, keep)
    return found


def mapped(
    value: Any, schema: Any, text: Callable[[Text], str], pointer: str = "", field: str | None = None, depth: int = 0
) -> Any:
    """Return the value with each string replaced by what `text` returns for it.

    A field of a schema is a secret when it is `writeOnly`, and so is everything inside it. It is an address when its
    format is `uri` or its name is `url`. Raises InvalidInputError when the value is nested too deeply.
    """
    if depth > MAX_DEPTH:
        raise InvalidInputError(
            "The configuration is nested too deeply",
            code="invalid_config",
            pointer=pointer,
            error_type="invalid_config",
        )
    schema = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, str):
        return text(Text(pointer, value, field))
    if isinstance(value, Mapping):
        properties = schema.get("properties", {})
        return {
            name: mapped(
                each,
                properties.get(name),
                text,
                f"{pointer}/{escaped(name)}",
                field or _field(name, properties.get(name)),
                depth + 1,
            )
            for name, each in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [
            mapped(each, items, text, f"{pointer}/{position}", field or _field("", items), depth + 1)
            for position, each in enumerate(value)
        ]
    return value


def is_typed(secret: str) -> bool:
    """Return whether the text of a secret field is the secret itself: one with `${` is meant to have placeholders."""
    return "${" not in secret


def _field(name: str, schema: Any) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    if schema.get("writeOnly"):
        return "secret"
    return "address" if schema.get("format") == "uri" or name == "url" else None
