"""Reads the files of `schemas/tools`: for each tool its description and the JSON Schemas (2020-12) of its arguments and
its answer. Those of context tools follow their contract."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from schemas.configuration import JsonSchema

_FILES = Path(__file__).resolve().parent / "tools"


WARNINGS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "string", "minLength": 1},
    "description": "Sentences about what nothing read of the request, or could not be asked for it; absent when there "
    "is nothing to say.",
}
"""The schema of the field `warnings`, which every tool's answer may have."""


class ToolSchemas(NamedTuple):
    """What the file of a tool says. `idempotent`: the same call again changes nothing more. `elsewhere`: names of other
    tools' arguments, with the words that say where they belong."""

    description: str
    input: JsonSchema
    output: JsonSchema
    idempotent: bool
    elsewhere: Mapping[str, str]


def read_tool_schemas(name: str, allowed: Mapping[str, Sequence[str]] | None = None) -> ToolSchemas:
    """Return the description and the schemas in `schemas/tools/{name}.json`.

    `allowed` gives the values of fields with an enumeration by the field's name, in place of the file's.
    """
    read = copy.deepcopy(_file(name))
    for field, values in (allowed or {}).items():
        _allow(read["input"], field, values)
    read["output"]["properties"]["warnings"] = WARNINGS
    return ToolSchemas(
        read["description"], read["input"], read["output"], read.get("idempotent", True), read.get("elsewhere", {})
    )


@cache
def _file(name: str) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads((_FILES / f"{name}.json").read_bytes())
    return read


def _allow(schema: JsonSchema, field: str, values: Sequence[str]) -> None:
    for name, below in schema.get("properties", {}).items():
        if name == field and "enum" in below:
            below["enum"] = list(values)
        _allow(below, field, values)
