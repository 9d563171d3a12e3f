"""Spells schemas and texts of openapi.yaml in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "minLength": "from {} characters",
    "maxLength": "up to {} characters",
    "minItems": "from {} elements",
    "maxItems": "up to {} elements",
}
_CODE = re.compile(r"(`[^`]*`)")


def prose(text: str) -> str:
    """Return a text in which nothing but its Markdown means anything to a browser."""
    return "".join(part if part.startswith("`") else _escaped(part) for part in _CODE.split(text.strip()))


def cell(text: str) -> str:
    """Return a text for a cell of a table, which has one line."""
    return prose(" ".join(text.split())).replace("|", "&#124;") if "`" not in text else _cell_with_code(text)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def heading_anchor(name: str) -> str:
    return name.lower()


def spelt_type(schema: dict[str, Any], schemas_page: str) -> str:
    """Return the type of a value in a few words, with links to the schemas it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({schemas_page}#{heading_anchor(name)})"
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return ", ".join(_value(each) for each in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            kinds = [spelt_type(each, schemas_page) for each in schema[word]]
            return " or ".join(dict.fromkeys(each for each in kinds if each))
    if "allOf" in schema:
        return " and ".join(filter(None, (spelt_type(each, schemas_page) for each in schema["allOf"])))
    kinds = schema.get("type", [])
    named = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    if named == "array" and "items" in schema:
        return f"array of {spelt_type(schema['items'], schemas_page) or 'anything'}"
    return named


def fields_table(schema: dict[str, Any], schemas_page: str) -> str:
    """Return a table of an object's fields, those of all its parts included, or nothing for other values."""
    fields: dict[str, dict[str, Any]] = {}
    required: set[str] = set()
    for part in (schema, *schema.get("allOf", ())):
        fields |= part.get("properties", {})
        required |= set(part.get("required", ()))
    rows = [
        (
            f"`{name}`{' (required)' if name in required else ''}",
            spelt_type(each, schemas_page),
            _meaning(each),
        )
        for name, each in fields.items()
        if isinstance(each, dict)
    ]
    return table(("Field", "Type", "Meaning"), rows) if rows else ""


def _meaning(schema: dict[str, Any]) -> str:
    bounds = [words.format(schema[name]) for name, words in _BOUNDS.items() if name in schema]
    if "default" in schema:
        bounds.append(f"default {_value(schema['default'])}")
    said = cell(schema.get("description", ""))
    return f"{said}{' ' if said and bounds else ''}{'(' + ', '.join(bounds) + ')' if bounds else ''}"


def _cell_with_code(text: str) -> str:
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        code_in_cell(part) if part.startswith("`") else _escaped(part).replace("|", "&#124;") for part in parts
    )


def code_in_cell(part: str) -> str:
    """Return code for a cell, where a vertical bar would end the cell even in backticks."""
    return part if "|" not in part else f"<code>{_escaped(part.strip('`')).replace('|', '&#124;')}</code>"


def _value(value: object) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
