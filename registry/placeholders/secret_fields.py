"""The secrets of a configuration: which may be kept, and which a person typed instead of placeholders."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from registry.placeholders.addresses_in_values import has_token_in_path
from registry.placeholders.configuration_texts import MAX_DEPTH, is_typed, texts
from schemas.configuration import JsonSchema, has_placeholder
from schemas.connections import Fault
from schemas.json_pointers import escaped, unescaped


def secret_faults(config: Mapping[str, Any], schema: JsonSchema, *, typed: bool = False) -> list[Fault]:
    """Return the secret fields (`writeOnly`, at any depth) that cannot be kept, and addresses with a part that looks
    like a key.

    A secret is kept as placeholders alone or, where `typed` ones can be sealed, as the text that a person typed.
    """
    wrong = [
        Fault(pointer, _complaint(label, typed=typed))
        for pointer, label, value in _secret_values(config, schema)
        if value is not None
        and not (
            isinstance(value, str) and (_is_only_placeholders(value) or (typed and value != "" and is_typed(value)))
        )
    ]
    return wrong + [
        Fault(place.pointer, "The path of the URL looks like a key: keep the address in a variable, like ${NAME_URL}")
        for place in texts(config, schema)
        if place.field == "address" and has_token_in_path(place.text) and not has_placeholder(place.text)
    ]


def typed_secrets(config: Mapping[str, Any], schema: JsonSchema) -> dict[str, str]:
    """Return the secrets that a person typed, by their JSON Pointers."""
    return {
        pointer: value
        for pointer, _, value in _secret_values(config, schema)
        if isinstance(value, str) and is_typed(value)
    }


def with_secrets(config: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of the configuration with these values at their JSON Pointers, where their parents exist."""
    found = copy.deepcopy(dict(config))
    for pointer, value in values.items():
        parent, name = _place(found, pointer)
        if parent is not None:
            parent[name] = value
    return found


def without_secrets(config: Mapping[str, Any], pointers: Iterable[str]) -> dict[str, Any]:
    """Return a copy of the configuration without what is at these JSON Pointers."""
    found = copy.deepcopy(dict(config))
    for pointer in pointers:
        parent, name = _place(found, pointer)
        if parent is not None:
            parent.pop(name, None)
    return found


def leaves_out(config: Mapping[str, Any], pointer: str) -> bool:
    """Return whether the configuration has the parent of the field at a JSON Pointer, but not the field."""
    parent, name = _place(config, pointer)
    return parent is not None and name not in parent


def _place(config: Any, pointer: str) -> tuple[Any, str]:
    *above, name = map(unescaped, pointer.removeprefix("/").split("/"))
    for each in above:
        config = config.get(each) if isinstance(config, Mapping) else None
    return (config if isinstance(config, Mapping) else None), name


def _secret_values(value: Any, schema: JsonSchema, pointer: str = "") -> Iterator[tuple[str, str, Any]]:
    if not isinstance(value, Mapping) or pointer.count("/") > MAX_DEPTH:
        return
    for name, field in schema.get("properties", {}).items():
        if name in value and isinstance(field, Mapping):
            place = f"{pointer}/{escaped(name)}"
            if field.get("writeOnly"):
                yield place, str(field.get("title", name)), value[name]
            else:
                yield from _secret_values(value[name], dict(field), place)


def _complaint(label: str, *, typed: bool) -> str:
    if typed:
        return f"{label} is either the secret itself, without ${{ in it, or only placeholders like ${{NAME_API_KEY}}"
    return f"{label} is a secret: store a placeholder like ${{NAME_API_KEY}} or ${{file:/path}} instead of it"


def _is_only_placeholders(text: str) -> bool:
    return bool(re.fullmatch(r"(?:\$\{[^}]+\})+", text))
