"""The forms of providers' connections: their fields, their alternatives, and the JSON Schema for renderers of forms."""

from __future__ import annotations

import copy
from typing import Any

from schemas.configuration import JsonSchema

Json = dict[str, Any]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
"""The draft that renderers of forms read by default. What the schemas of providers say, it says in the same words."""
PLACEHOLDER = r"\$\{[^}]+\}"
_TYPES = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean", "array": "list"}


def rendered_schema(schema: JsonSchema) -> JsonSchema:
    """Return a provider's schema for renderers of forms: secrets masked, and placeholders valid where they may stand,
    as they are for the service."""
    return {**_rendered(schema), "$schema": DRAFT_7}


def form_choices(schema: JsonSchema) -> list[Json]:
    """Return the alternatives of a form, of which exactly one is to be filled in; empty when it has none."""
    return [
        {"title": each["title"], "fields": each["x-fields"]}
        for each in schema.get("oneOf", ())
        if "title" in each and "x-fields" in each
    ]


def form_fields(schema: JsonSchema) -> list[dict[str, Any]]:
    """Return the fields of a form, in order, as a config builder draws and checks them (contract *storage*)."""
    required = set(schema.get("required", ()))
    choice_of = {name: choice["title"] for choice in form_choices(schema) for name in choice["fields"]}
    return [
        _form_field(name, field, name in required, choice_of.get(name))
        for name, field in schema.get("properties", {}).items()
    ]


def _form_field(name: str, field: JsonSchema, required: bool, choice: str | None) -> dict[str, Any]:
    secret = bool(field.get("writeOnly"))
    kind = "password" if secret else "select" if "enum" in field else _kind(field)
    shown = {
        "name": name,
        "type": kind,
        "label": field.get("title", name),
        "description": field.get("description", ""),
        "required": required,
        "default": field.get("default"),
        "placeholder": next(iter(field.get("examples", ())), None),
        "secret": secret,
        "validation": _validation(field),
        "min": field.get("minimum", field.get("minLength")),
        "max": field.get("maximum", field.get("maxLength")),
        "step": field.get("multipleOf", 1 if field.get("type") == "integer" else None),
        "group": field.get("x-group"),
        "advanced": bool(field.get("x-advanced")),
        "choice": choice,
    }
    if "enum" in field:
        shown["options"] = field["enum"]
    return shown


def _kind(field: JsonSchema) -> str:
    if field.get("format") == "uri":
        return "url"
    return _TYPES.get(str(field.get("type")), "text")


def _validation(field: JsonSchema) -> dict[str, Any]:
    rules = {
        "pattern": field.get("pattern"),
        "min": field.get("minimum", field.get("minLength")),
        "max": field.get("maximum", field.get("maxLength")),
        "message": field.get("x-message"),
    }
    return {name: value for name, value in rules.items() if value is not None}


def _rendered(schema: JsonSchema) -> JsonSchema:
    rendered = copy.deepcopy(schema)
    for name, field in rendered.get("properties", {}).items():
        rendered["properties"][name] = _rendered_field(field)
    return rendered


def _rendered_field(field: Any) -> Any:
    if not isinstance(field, dict):
        return field
    if "properties" in field:
        return _rendered(field)
    is_address, is_secret = field.get("format") == "uri", bool(field.get("writeOnly"))
    if not (is_address or is_secret):
        return field
    field = {name: value for name, value in field.items() if name != "format"}
    if is_secret:
        field["format"] = "password"
    if "pattern" in field:
        field["pattern"] = f"(?:{field['pattern']})|{PLACEHOLDER}"
    return field
