"""Make hostile requests: every field of the description with values of other kinds."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import orjson

from schemas.tool_schemas import read_tool_schemas
from tests.fuzz.hostile_shapes import COLLECTION, JSON, LINES, MCP, Made, document_with
from tests.support.contract import METHODS, Contract, Pointer

DELETING_ALL = ("DELETE /collections/{name}", "DELETE /collections/{name}/documents/all")
"""These would delete what the other requests need."""
FILLED = {"provider": "chromadb-wrapper", "tool": "rag_context_search", "file": "swagger-ui.css"}
HTTP_TOOLS = ("rag_context_search", "rag_context_index", "rag_context_health", "rag_context_stats")
TOOLS = (
    *HTTP_TOOLS, "rag_query", "rag_context", "rag_gather", "rag_collections", "session_start", "session_note", "session_end"
)  # fmt: skip
ARGUMENTS = {
    "query": "x", "content": "x", "topic": "x", "collection": COLLECTION, "chunk_id": "a", "name": "x", "note": "x"
}  # fmt: skip
"""The arguments that tools get beside a wrong value."""
MAX_LEVELS = 4

WRONG_TEXTS = (
    "", "-1", "9" * 5_000, "%00", "%FF", "%24%7BHOME%7D", "%7B%7D", "x" * 5_000, "[]", "1e9", "..%2F..%2Fetc%2Fpasswd", "%2F",
    "%20", "-0", "%D9%A3", "null", "%5B%5B%5B", "%22x%22", "%7B%22a%22%3A%7B%22%24in%22%3A%5B1%5D%7D%7D", "a,-b,,c", "%25",
)  # fmt: skip
"""Wrong values of parameters, as they stand in a path."""

WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 1e308, -0.0, "", " ", "\0", "\ud800", "${RAG_CHAT_API_KEY}", "${file:/etc/passwd}", "%s%n",
    "../../etc/passwd", "'; DROP TABLE documents; --", "x" * 5_000, [], [None], [[]] * 50, {}, {"$gt": ""}, {"": {"": []}},
    ["${HOME}"], {"a": "${HOME}"}, 0.5, "--5", [1, 2], ["a", ""], {"$and": [{"$or": [{}]}]},
)  # fmt: skip
"""One value of each kind that a field may be given instead of the one it takes."""


class _Operation:
    def __init__(self, contract: Contract, template: str, method: str) -> None:
        self.name = f"{method.upper()} {template}"
        self._contract = contract
        self._method = method.upper()
        self._at: Pointer = ("paths", template, method)
        self._template = template
        self._owners = (self._at[:2], self._at)
        self._name = "nothing" if self.name in DELETING_ALL else COLLECTION

    def requests(self) -> list[Made]:
        return [*self.as_it_is(), *self.parameters(), *self.bodies(), *self.lines()]

    def as_it_is(self) -> Iterator[Made]:
        example = self._example("application/json")
        body = b"" if example is None else _written(example)
        yield self._made("as it is", self._path(), body)

    def parameters(self) -> Iterator[Made]:
        for owner in self._owners:
            for index in range(len(self._contract.at(owner).get("parameters", []))):
                parameter = self._contract.at((*owner, "parameters", str(index)))
                name, place = parameter["name"], parameter["in"]
                for text in WRONG_TEXTS:
                    said = f"{name}={text[:20]}"
                    if place == "path":
                        yield self._made(said, self._path(**{name: text}))
                    elif place == "query":
                        yield self._made(said, f"{self._path()}?{name}={text}")
                    else:
                        yield self._made(said, self._path(), headers={name: unquote(text, "latin-1")})

    def bodies(self) -> Iterator[Made]:
        example = self._example("application/json")
        if example is None:
            return
        for value in WRONG:
            yield self._made(f"body={_shown(value)}", self._path(), _written(value))
        schema = (*self._at, "requestBody", "content", "application/json", "schema")
        for field_path in _field_paths(self._contract, schema):
            for value in WRONG:
                body = _written(_with(example, field_path, value))
                yield self._made(f"{'.'.join(field_path)}={_shown(value)}", self._path(), body)

    def lines(self) -> Iterator[Made]:
        if self._example("application/x-ndjson") is None:
            return
        for value in WRONG:
            documents = [value, *(document_with(**{name: value}) for name in document_with(metadata={}))]
            body = b"\n".join(map(_written, documents))
            yield self._made(f"lines={_shown(value)}", self._path(), body, LINES)

    def _made(self, said: str, path: str, body: bytes = b"", headers: dict[str, str] = JSON) -> Made:
        return Made(f"{self.name} {said}", self._method, path, body, headers)

    def _path(self, **given: str) -> str:
        document_id = "a" if self._template.startswith("/collections") else "nothing"
        filled = {**FILLED, "name": self._name, "id": document_id, **given}
        return re.sub(r"\{(\w+)\}", lambda found: filled.get(found[1], "nothing"), self._template)

    def _example(self, media_type: str) -> Any:
        """Return an example of the body, or None when the operation takes no body of that type."""
        try:
            described = self._contract.at((*self._at, "requestBody", "content", media_type))
        except KeyError:
            return None
        examples = [each["value"] for each in described.get("examples", {}).values()]
        return [described.get("example"), *examples, {}][0 if "example" in described else 1]


def _field_paths(contract: Contract, schema: Pointer, levels: int = MAX_LEVELS) -> list[tuple[str, ...]]:
    """Return the paths at which the schema has fields; "0" stands for the first element of a list."""
    described = contract.at(schema)
    if not isinstance(described, dict) or not levels:
        return []
    found = []
    for name in described.get("properties", {}):
        below = _field_paths(contract, (*schema, "properties", name), levels - 1)
        found += [(name,), *((name, *path) for path in below)]
    if "items" in described:
        found += [("0", *path) for path in _field_paths(contract, (*schema, "items"), levels - 1)]
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index in range(len(described.get(keyword, ()))):
            found += _field_paths(contract, (*schema, keyword, str(index)), levels)
    return list(dict.fromkeys(found))


def _with(example: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return a copy of the example with the value at the path, creating whatever is missing on the way."""
    if not path:
        return value
    if path[0] == "0":
        elements = example if isinstance(example, list) else []
        return [_with(elements[0] if elements else {}, path[1:], value), *elements[1:]]
    fields = example if isinstance(example, dict) else {}
    return {**fields, path[0]: _with(fields.get(path[0]), path[1:], value)}


def _tool(tool: str) -> Iterator[Made]:
    example = {name: text for name, text in ARGUMENTS.items() if name in _argument_names(tool)}
    for name in ("", *_argument_names(tool)):
        for value in WRONG if name else (None,):
            given = {**example, name: value} if name else example
            said = f"{name}={_shown(value)}" if name else "as it is"
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
            yield Made(f"{tool} by MCP {said}", "POST", "/mcp", _written(message), MCP)
            if tool in HTTP_TOOLS:
                yield Made(f"{tool} {said}", "POST", f"/tools/{tool}", _written(given), JSON)
    if tool in HTTP_TOOLS:
        for name in _argument_names(tool):
            for text in WRONG_TEXTS:
                yield Made(f"{tool}?{name}={text[:20]}", "GET", f"/tools/{tool}?query=x&{name}={text}")


def _argument_names(tool: str) -> list[str]:
    return list(read_tool_schemas(tool).input.get("properties", {}))


def _written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _shown(value: Any) -> str:
    return ascii(value)[:40]


def _described() -> Iterator[tuple[str, Callable[[], list[Made]]]]:
    contract = Contract.load()
    for template, item in contract.document["paths"].items():
        for method in (each for each in item if each.upper() in METHODS):
            operation = _Operation(contract, template, method)
            yield operation.name, operation.requests
    for tool in TOOLS:
        yield f"tool {tool}", lambda tool=tool: list(_tool(tool))


DESCRIBED = dict(_described())
"""What makes the requests to each operation of openapi.yaml and each tool: the correct one, and one with each wrong value
in the place of each parameter and each field, nested ones included."""
