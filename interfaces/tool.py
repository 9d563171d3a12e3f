"""Tools: functions with a name and schemas, the same over HTTP and MCP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from schemas.access.callers import Scope, current
from schemas.access.table import TOOLS
from schemas.configuration import JsonSchema, faults, with_defaults
from schemas.errors import ConfigurationError, InvalidInputError, NotFoundError
from schemas.field_names import Unknown, check_names, names_of_json_schema
from schemas.json_pointers import unescaped
from schemas.settings import RetrievalSettings
from schemas.tool_schemas import read_tool_schemas

Json = dict[str, Any]
OutcomeT = TypeVar("OutcomeT")


class ToolNotFoundError(NotFoundError):
    """No tool has that name (the sentence is the contract *context*'s)."""

    code = "tool_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Tool {name} not found", tool=name)


@dataclass(frozen=True, slots=True)
class Tool(Generic[OutcomeT]):
    """A function of the retrieval layer that programs call by name, over HTTP or MCP.

    The schemas are JSON Schema (2020-12) and describe objects. `run` takes checked arguments and returns an outcome;
    `spell` writes it as the output schema describes.
    """

    name: str
    description: str
    input_schema: JsonSchema
    output_schema: JsonSchema
    run: Callable[[Json], OutcomeT]
    spell: Callable[[OutcomeT], Json]
    read_only: bool = True
    writes_to: str | None = None
    """The collection that `run` writes to."""
    kept_as: type[OutcomeT] | None = None
    """The class of the outcomes, which idempotency keys keep by their fields. A tool that writes over HTTP has one."""
    idempotent: bool = True
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Names that narrow the answers of another tool, with where they belong: ignored, this one would be too wide."""
    waits: Callable[[Json], bool] = lambda arguments: False
    """Whether `run` waits for another service with these arguments, which need not be checked."""

    def is_callers(self) -> bool:
        """Return whether the current caller may call this tool."""
        return current().may(needed_for(self.name))

    def check(self, arguments: object, unknown: Unknown) -> Json:
        """Return the arguments with defaults and without nulls, which mean the same as absent where the schema names
        fields; note unknown names in `unknown`.

        Raises InvalidInputError naming the field that is wrong.
        """
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise InvalidInputError("The arguments must be an object", code="invalid_field", field="arguments")
        try:
            orjson.dumps(arguments)
        except TypeError:
            raise InvalidInputError("The arguments are nested too deep or not Unicode", code="invalid_field") from None
        given = _without_nulls(arguments, self.input_schema)
        check_names(given, names_of_json_schema(self.input_schema).beside(self.elsewhere), unknown)
        for fault in faults(given, self.input_schema):
            path = [unescaped(part) for part in fault.pointer.split("/")[1:]]
            raise InvalidInputError(fault.message, code="invalid_field", field=".".join(path))
        return with_defaults(given, self.input_schema)

    def __call__(self, arguments: object) -> Json:
        """Check the arguments, run and spell; the answer's `warnings` name what was unknown.

        Raises InvalidInputError when an argument is wrong, and what the function raises.
        """
        unknown = Unknown()
        answer = self.spell(self.run(self.check(arguments, unknown)))
        warnings = [*answer.get("warnings", ()), *unknown.take()]
        return answer | {"warnings": warnings} if warnings else answer


def described_tool(
    name: str,
    run: Callable[[Json], OutcomeT],
    spell: Callable[[OutcomeT], Json],
    allowed: Mapping[str, Sequence[str]] | None = None,
    **more: Any,
) -> Tool[OutcomeT]:
    """Return the tool that `schemas/tools/{name}.json` describes; `allowed` is as `read_tool_schemas` takes it."""
    read = read_tool_schemas(name, allowed)
    return Tool(
        name,
        read.description,
        read.input,
        read.output,
        run,
        spell,
        read_only=needed_for(name) is Scope.READ,
        idempotent=read.idempotent,
        elsewhere=read.elsewhere,
        **more,
    )


def allowed_values(settings: RetrievalSettings) -> dict[str, Sequence[str]]:
    """Return the values of fields that the operator chooses, by the name of the field."""
    return {"category": settings.context_categories, "contentType": settings.context_content_types}


def _without_nulls(value: Json, schema: JsonSchema) -> Json:
    below = schema.get("properties", {})
    return {
        name: _without_nulls(each, below[name])
        if isinstance(each, dict) and "properties" in below.get(name, {})
        else each
        for name, each in value.items()
        if each is not None
    }


def needed_for(tool: str) -> Scope:
    """Return the scope that a tool asks for. Raises ConfigurationError when the table of access does not have it."""
    needs = TOOLS[tool].needs if tool in TOOLS else None
    if not isinstance(needs, Scope):
        raise ConfigurationError(f"The tool {tool} is not in the table of access: nobody knows who may call it")
    return needs
