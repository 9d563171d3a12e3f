"""Checks a connection's configuration by its provider's JSON Schema (2020-12): faults by field, defaults.

The schema is the single source: what a form shows, what is validated and what the documentation lists are read from
it. Its annotations mean: `title` the label, `writeOnly` a secret, `examples` a placeholder, `x-message` the sentence
for a value that does not fit, `x-folder` a folder in the data directory, `x-group` the group of a field in a form,
`x-advanced` a field that most leave as it is; and in an alternative of `oneOf`: `title` its name, `x-fields` the fields
that belong to it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson
from jsonschema import Draft202012Validator, ValidationError

from schemas.connections import Fault
from schemas.json_pointers import escaped

JsonSchema = dict[str, Any]

_FILES = Path(__file__).resolve().parent / "providers"
_PLACEHOLDER = re.compile(r"(?<!\$)(?:\$\$)*\$\{(?:(?!\$\{)[^}])*\}")  # two dollar signs stand for one


@cache
def read_schema(name: str) -> JsonSchema:
    """Return the schema in `schemas/providers/{name}.json`, which callers must not change."""
    schema: JsonSchema = orjson.loads((_FILES / f"{name}.json").read_bytes())
    return schema


def faults(config: Any, schema: JsonSchema, *, placeholders: bool = False) -> list[Fault]:
    """Return the faults of a configuration, in the order of the schema's fields, then the rest.

    Values are never quoted: they may be secrets. With `placeholders`, a string that holds one fits everywhere; its
    value is judged when it is known.
    """
    if not isinstance(config, Mapping):
        return [Fault("", "The configuration must be an object")]
    order = {name: position for position, name in enumerate(schema.get("properties", {}))}
    found = [
        fault
        for error in Draft202012Validator(schema).iter_errors(config)
        for fault in _faults_of(error, schema)
        if not (placeholders and has_placeholder(error.instance) and error.validator != "required")
    ]
    unique = list(dict.fromkeys(found))
    return sorted(unique, key=lambda fault: order.get(fault.pointer.split("/")[1] if fault.pointer else "", len(order)))


def with_defaults(config: Mapping[str, Any], schema: JsonSchema) -> dict[str, Any]:
    """Return the configuration with the schema's defaults for fields that are absent or null, and with integers where
    the schema has them: JSON Schema takes 5.0 for one, and Python does not."""
    properties = schema.get("properties", {})
    defaults = {name: copy.deepcopy(field["default"]) for name, field in properties.items() if "default" in field}
    return defaults | {name: _as_integers(value, properties.get(name, {})) for name, value in tidied(config).items()}


def _as_integers(value: Any, schema: JsonSchema) -> Any:
    if isinstance(value, float) and value.is_integer() and schema.get("type") == "integer":
        return int(value)
    if isinstance(value, list) and "items" in schema:
        return [_as_integers(each, schema["items"]) for each in value]
    if isinstance(value, Mapping) and "properties" in schema:
        return {name: _as_integers(each, schema["properties"].get(name, {})) for name, each in value.items()}
    return value


def tidied(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration as it is meant: without null fields, which count as absent, and with a `url` that has no
    blanks around it and its scheme in small letters."""
    found = {name: value for name, value in config.items() if value is not None}
    if isinstance(url := found.get("url"), str):
        found["url"] = re.sub("^[A-Za-z]+(?=://)", lambda scheme: scheme[0].lower(), url.strip())
    return found


def secrets(schema: JsonSchema) -> frozenset[str]:
    """Return the names of the fields whose values are never shown."""
    return frozenset(name for name, field in schema.get("properties", {}).items() if field.get("writeOnly"))


def folders(schema: JsonSchema) -> frozenset[str]:
    """Return the names of the fields that choose a folder in the data directory."""
    return frozenset(name for name, field in schema.get("properties", {}).items() if field.get("x-folder"))


def has_placeholder(value: Any) -> bool:
    return isinstance(value, str) and bool(_PLACEHOLDER.search(value))


def _faults_of(error: ValidationError, schema: JsonSchema) -> Iterator[Fault]:
    pointer = "".join(f"/{escaped(part)}" for part in error.absolute_path)
    if error.validator == "required":
        known = error.schema.get("properties", {})
        for name in cast(list[str], error.validator_value):
            # A field with a default is present even when it is left out.
            if name not in error.instance and "default" not in known.get(name, {}):
                yield Fault(f"{pointer}/{escaped(name)}", f"{_label(schema, name)} is required")
    elif error.validator == "additionalProperties":
        for name in error.instance:
            if name not in error.schema.get("properties", {}):
                yield Fault(f"{pointer}/{escaped(name)}", f"There is no field '{name}'")
    else:
        path = [str(part) for part in error.absolute_path]
        label = ".".join(path) if len(path) > 1 else _label(schema, "".join(path))
        yield Fault(pointer, error.schema.get("x-message") or f"{label} {_complaint(error)}")


def _label(schema: JsonSchema, name: str) -> str:
    return str(schema.get("properties", {}).get(name, {}).get("title", name or "The configuration"))


def _complaint(error: ValidationError) -> str:
    limit = error.validator_value
    match error.validator:
        case "type":
            return f"must be {_article(str(limit))}"
        case "enum":
            return f"must be one of {', '.join(str(each) for each in limit)}"
        case "minimum" | "exclusiveMinimum":
            return f"must be at least {limit}"
        case "maximum" | "exclusiveMaximum":
            return f"must be at most {limit}"
        case "minLength":
            return "must not be empty" if limit == 1 else f"must have at least {limit} characters"
        case "minItems":
            return f"must have at least {limit} {'element' if limit == 1 else 'elements'}"
        case "maxItems":
            return f"must have at most {limit} elements"
        case "maxLength":
            return f"must have at most {limit} characters"
        case _:
            return "is not valid"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
