"""Functions of the retrieval layer that programs call by name, over HTTP or MCP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.configuration import JsonSchema, faults, present, with_defaults
from schemas.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the retrieval layer that programs call by name, over HTTP or MCP.

    Both schemas are JSON Schema 2020-12, of objects. `run` takes checked arguments, nulls removed, and returns the raw
    result.
    """

    name: str
    description: str
    input_schema: JsonSchema
    output_schema: JsonSchema
    run: Callable[[dict[str, Any]], dict[str, Any]]
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True

    def check(self, arguments: object) -> dict[str, Any]:
        """The arguments without nulls, defaults filled in. Raises InvalidInputError naming the field."""
        if not isinstance(arguments, dict):
            raise InvalidInputError("The arguments must be an object", code="invalid_field", field="arguments")
        given = present(arguments)
        for fault in faults(given, self.input_schema):
            field = fault.pointer.removeprefix("/").replace("/", ".")
            raise InvalidInputError(fault.message, code="invalid_field", field=field)
        return with_defaults(given, self.input_schema)

    def __call__(self, arguments: object) -> dict[str, Any]:
        return self.run(self.check(arguments))
