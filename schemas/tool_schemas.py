"""What the tools take and answer: JSON Schemas (2020-12) in `schemas/tools`, of the context tools those of seed 000."""

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
    "description": "What of the request nothing reads, in sentences; absent when there is nothing to say.",
}
"""Of every tool's answer."""


class ToolSchemas(NamedTuple):
    input: JsonSchema
    output: JsonSchema


def read_tool_schemas(name: str, allowed: Mapping[str, Sequence[str]] | None = None) -> ToolSchemas:
    """Those in `schemas/tools/{name}.json`. `allowed` are the values of fields that have an enumeration, by the field's
    name, in place of the file's."""
    read = copy.deepcopy(_file(name))
    for field, values in (allowed or {}).items():
        _allow(read["input"], field, values)
    read["output"]["properties"]["warnings"] = WARNINGS
    return ToolSchemas(read["input"], read["output"])


@cache
def _file(name: str) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads((_FILES / f"{name}.json").read_bytes())
    return read


def _allow(schema: JsonSchema, field: str, values: Sequence[str]) -> None:
    for name, below in schema.get("properties", {}).items():
        if name == field and "enum" in below:
            below["enum"] = list(values)
        _allow(below, field, values)
