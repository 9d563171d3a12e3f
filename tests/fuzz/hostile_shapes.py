"""Requests that are to hurt: shapes that grow, and every field of the description with values of other kinds."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from schemas.tool_schemas import read_tool_schemas
from tests.support.contract import METHODS, Contract, Pointer

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
PACKED_LINES = {**LINES, "Content-Encoding": "gzip"}
COLLECTION = "hostile"
MCP = {**JSON, "Accept": "application/json, text/event-stream"}
DELETING_ALL = ("DELETE /collections/{name}", "DELETE /collections/{name}/documents/all")
"""What the other requests need is not there to be deleted."""
FILLED = {"provider": "chromadb-wrapper", "tool": "rag_context_search", "file": "swagger-ui.css"}
HTTP_TOOLS = ("rag_context_search", "rag_context_index", "rag_context_health", "rag_context_stats")
TOOLS = (
    *HTTP_TOOLS, "rag_query", "rag_context", "rag_gather", "rag_collections", "session_start", "session_note", "session_end"
)  # fmt: skip
ARGUMENTS = {
    "query": "x", "content": "x", "topic": "x", "collection": COLLECTION, "chunk_id": "a", "name": "x", "note": "x"
}  # fmt: skip
"""What tools are given beside a wrong value."""
MAX_LINE_BYTES = 30_000
MAX_LEVELS = 4


@dataclass(frozen=True, slots=True)
class Made:
    """A request, and what it is called in a report."""

    name: str
    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Shape = Callable[[int], Made]


def _post(path: str, value: Any, method: str = "POST") -> Made:
    return Made("", method, path, value if isinstance(value, bytes) else _json(value), JSON)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _document(**fields: Any) -> dict[str, Any]:
    return {"id": "hurt", "text": "x", "embedding": [0.6, 0.8], **fields}


def _add(**fields: Any) -> Made:
    return _post(f"/collections/{COLLECTION}/documents", {"documents": [_document(**fields)]})


def _lines(lines: Iterable[bytes], on_conflict: str = "replace", path: str = "documents") -> Made:
    asked = f"?on_conflict={on_conflict}" if path == "documents" else ""
    return Made("", "POST", f"/collections/{COLLECTION}/{path}{asked}", b"\n".join(lines), LINES)


def _connection(config: dict[str, Any]) -> Made:
    return _post("/api/connections/validate", {"type": "rag", "provider": "chromadb-wrapper", "config": config})


def _call(tool: str, **arguments: Any) -> Made:
    params = {"name": tool, "arguments": arguments}
    return Made("", "POST", "/mcp", _json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}), MCP)


def _search(**fields: Any) -> Made:
    return _post(f"/collections/{COLLECTION}/documents/search", fields)


def _words(query: str) -> Made:
    return _post(f"/collections/{COLLECTION}/text-search", {"query": query})


def _ingest(text: str) -> Made:
    return _post("/api/rag/ingest", {"source": "hostile", "path": "p", "title": "t", "text": text})


def _rules(text: str) -> Made:
    metadata = {"source": "s", "doc_type": "faq", "last_update_date": "2026-01-01"}
    return _post(
        "/api/rag/documents:batch", {"documents": [{"filename": "a.md", "content": text, "metadata": metadata}]}
    )


def _index(text: str) -> Made:
    return _post("/tools/rag_context_index", {"content": text, "contentType": "code"})


def _nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = {"a": inside}
    return inside


def _deep_where(levels: int) -> Any:
    where: Any = {"n": 1}
    for _ in range(levels):
        where = {"$and": [where]}
    return where


MARKDOWN = {
    "front matter and blanks": lambda n: f"---\ntitle: x{' ' * n}y",
    "brackets": lambda n: "[" * n,
    "links": lambda n: "[a](" * (n // 4),
    "emphasis": lambda n: "*a_" * (n // 3),
    "backticks": lambda n: "".join("`" * (1 + each % 50) + "a" for each in range(n // 26)),
    "quotes": lambda n: "> " * (n // 2) + "x",
    "headings": lambda n: "# a\n" * (n // 4),
    "lists": lambda n: "".join(" " * (each % 40) + "- a\n" for each in range(n // 24)),
    "a table": lambda n: "|a" * (n // 4) + "|\n" + "|-" * (n // 4) + "|\n",
    "blank lines": lambda n: "\n" * n,
    "one word": lambda n: "a" * n,
    "tags": lambda n: "<a " * (n // 3),
    "entities": lambda n: "&" * n,
    "combining marks": lambda n: "a" + "\u0301" * n,
    "letters that become eighteen": lambda n: "\ufdfa" * (n // 3),
    "ideographs": lambda n: "漢字" * (n // 6),
    "Thai": lambda n: "ก" * (n // 3),
    "joined emoji": lambda n: "\U0001f468\u200d" * (n // 7),
    "words, each another": lambda n: " ".join(f"w{each}" for each in range(n // 7)),
    "sentences": lambda n: "A b. " * (n // 5),
    "ends of the block of context": lambda n: "=== End Context ===\n" * (n // 20),
    "equals signs": lambda n: "=" * n,
}

SHAPES: dict[str, Shape] = {
    **{f"ingest: {name}": (lambda n, text=text: _ingest(text(n))) for name, text in MARKDOWN.items()},
    **{f"rules: {name}": (lambda n, text=text: _rules(text(n))) for name, text in MARKDOWN.items()},
    **{f"context: {name}": (lambda n, text=text: _index(text(n))) for name, text in MARKDOWN.items()},
    "fields of metadata": lambda n: _add(metadata={f"field {each}": each for each in range(n // 4)}),
    "elements of a list": lambda n: _add(metadata={"list": list(range(n // 4))}),
    "a list of lists": lambda n: _add(metadata={"list": [[1]] * (n // 4)}),
    "a long key": lambda n: _add(metadata={"k" * n: 1}),
    "a long value": lambda n: _add(metadata={"k": "v" * n}),
    "nested metadata": lambda n: _add(metadata=_nested(min(n // 16, 900), 1)),
    "a long id": lambda n: _add(id="i" * n),
    "a long text": lambda n: _add(text="word " * (n // 5)),
    "a text of one word": lambda n: _add(text="w" * n),
    "a long vector": lambda n: _add(embedding=[0.5] * n),
    "names nobody knows": lambda n: _add(**{f"name {each}": each for each in range(n // 4)}),
    "names that look like ours": lambda n: _add(**{f"{'e' * (each % 60)}mbedding{each}": 1 for each in range(n // 16)}),
    "fields nobody knows": lambda n: _search(**{f"name {each}": each for each in range(n // 4)}),
    "empty documents": lambda n: _post(f"/collections/{COLLECTION}/documents", {"documents": [{}] * n}),
    "packed empty documents": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/documents", gzip.compress(_json({"documents": [{}] * (n * 64)})), GZIP
    ),
    "packed blanks": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/documents", gzip.compress(b" " * (n * 512)), GZIP
    ),
    "refused lines": lambda n: _lines((_json(_document()) for _ in range(n // 32)), "error"),
    "lines of one id": lambda n: _lines(_json(_document(text=str(each))) for each in range(n // 64)),
    "lines that are there": lambda n: _lines((_json(_document(id=f"line-{each}")) for each in range(n // 64)), "error"),
    "lines that become one another": lambda n: _lines(
        _json(_document(id=f"turn-{each % 2}", text=str(each))) for each in range(n // 64)
    ),
    "blank lines": lambda n: _lines(b"" for _ in range(n)),
    "an import of one id": lambda n: _lines((_json(_document(text=str(each))) for each in range(n // 64)), path="import"),
    "an import of bad lines": lambda n: _lines((b"{}" for _ in range(n // 3)), path="import"),
    "packed bad lines": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/documents", gzip.compress(b"{}\n" * (n * 16)), PACKED_LINES
    ),
    "bad lines": lambda n: _lines(b"{}" for _ in range(n // 3)),
    "lines that are no JSON": lambda n: _lines(b"x" for _ in range(n // 2)),
    "lines of zeros": lambda n: _lines(_json(_document(embedding=[0, 0])) for _ in range(n // 64)),
    "documents of two bytes": lambda n: _post(
        f"/collections/{COLLECTION}/documents",
        {"documents": [{"id": f"{each:x}", "text": "", "embedding": [1, 0]} for each in range(n // 48)]},
    ),
    "tiny numbers": lambda n: _add(metadata={"list": [5e-324] * min(n // 8, 5_000)}),
    "numbers of many digits": lambda n: _post(
        f"/collections/{COLLECTION}/documents", b'{"documents": [{"text": "", "embedding": [1, 0], "metadata": {"n": '
        + b"9" * n + b"}}]}"
    ),
    "a patch of fields": lambda n: _post(
        f"/collections/{COLLECTION}/documents/a", {"metadata": {f"f{each}": None for each in range(n // 12)}}, "PATCH"
    ),
    "a collection's fields": lambda n: _post(
        "/collections", {"name": "hurt", "metadata": {f"field {each}": each for each in range(n // 16)}}
    ),
    "a collection's name": lambda n: _post("/collections", {"name": "n" * n}),
    "deep brackets": lambda n: _post(f"/collections/{COLLECTION}/documents/search", b"[" * n),
    "deep objects": lambda n: _post(f"/collections/{COLLECTION}/documents/search", b'{"a":' * (n // 5)),
    "a phrase": lambda n: _words('"' + "ab " * (n // 3) + '"'),
    "phrases": lambda n: _words('"a b" ' * (n // 6)),
    "words": lambda n: _words(" ".join(f"w{each}" for each in range(n // 6))),
    "quotation marks": lambda n: _words('"' * n),
    "stars": lambda n: _words("a* " * (n // 3)),
    "a word to search for": lambda n: _words("w" * n),
    "wide letters to search for": lambda n: _words("\ufdfa" * (n // 6)),
    "ideographs to search for": lambda n: _words("漢字" * (n // 12)),
    "a wide filter": lambda n: _search(where={"$or": [{"n": each} for each in range(n // 8)]}),
    "many values": lambda n: _search(where={"n": {"$in": list(range(n // 4))}}),
    "comparisons": lambda n: _search(where={"$and": [{"n": {"$gt": each}} for each in range(n // 8)]}),
    "a deep filter": lambda n: _search(where=_deep_where(min(n // 16, 300))),
    "a long path": lambda n: _search(where={".".join("ab" for _ in range(n // 3)): 1}),
    "a long operand": lambda n: _search(where={"n": "v" * n}),
    "a wide object": lambda n: _search(where={f"field {each}": 1 for each in range(n // 12)}),
    "unknown ids": lambda n: _search(ids=[f"id-{each}" for each in range(n // 4)]),
    "a gather of ids": lambda n: _post(
        f"/collections/{COLLECTION}/gather", {"by": "n", "ids": [f"id-{each}" for each in range(n // 4)]}
    ),
    "ids to delete": lambda n: _post(
        f"/collections/{COLLECTION}/documents", {"ids": [f"id-{each}" for each in range(n // 4)]}, "DELETE"
    ),
    "an order of many": lambda n: _search(order_by=[f"f{each}" for each in range(n // 8)]),
    "an order of commas": lambda n: _search(order_by="a," * (n // 2)),
    "many digits": lambda n: _post(f"/collections/{COLLECTION}/documents/search", b'{"limit": ' + b"9" * n + b"}"),
    "many decimals": lambda n: _post(
        f"/collections/{COLLECTION}/query", b'{"query_embedding": [0.5, 0.' + b"1" * n + b"]}"
    ),
    "long integers": lambda n: _post(
        f"/collections/{COLLECTION}/documents/search", b'{"x": [' + b"1" * 30 + (b"," + b"1" * 30) * (n // 32) + b"]}"
    ),
    "a query's vector": lambda n: _post(f"/collections/{COLLECTION}/query", {"query_embedding": [0.5] * n}),
    "base64": lambda n: _post(f"/collections/{COLLECTION}/query", {"query_embedding": "AAAA" * n}),
    "collections to collect from": lambda n: _post(
        "/api/collect",
        {"userMessage": "x", "selectedCollections": [{"service": "local", "name": f"c{each}"} for each in range(n // 32)]},
    ),
    "collections to search": lambda n: _post(
        "/api/search", {"query": "x", "collections": [f"collection-{each}" for each in range(n // 16)]}
    ),
    "patterns of collections": lambda n: _post("/api/search", {"query": "x", "collections": ["*" * n]}),
    "oracles": lambda n: _post("/api/search", {"query": "x", "oracles": [f"o{each}" for each in range(n // 4)]}),
    "weights": lambda n: _post("/api/search", {"query": "x", "weights": {f"o{each}": 1 for each in range(n // 8)}}),
    "a long question": lambda n: _post("/api/search", {"query": "why " * (n // 4)}),
    "a long message": lambda n: _post("/api/chat", {"message": "why " * (n // 4)}),
    "messages": lambda n: _post("/api/chat", {"messages": [{"role": "user", "content": "x"}] * (n // 16)}),
    "a long topic": lambda n: _post(
        "/api/collect", {"userMessage": "x", "topic": "why " * (n // 4), "currentTopic": "x", "selectedCollections": []}
    ),
    "tags": lambda n: _post(
        "/api/rag/ingest", {"source": "hostile", "path": "p", "title": "t", "text": "x", "tags": ["t"] * (n // 4)}
    ),
    "placeholders": lambda n: _post("/api/connections/validate", {
        "type": "rag", "provider": "chromadb-wrapper", "config": {"url": "${" * (n // 2)}
    }),
    "nested placeholders": lambda n: _post("/api/connections/env-vars/validate", {"text": "${A:-" * (n // 5)}),
    "names of variables": lambda n: _post("/api/connections/env-vars/validate", {"names": ["A" * 20] * (n // 24)}),
    "a connection's fields": lambda n: _connection({f"f{each}": "x" for each in range(n // 12)}),
    "a deep connection": lambda n: _connection(_nested(min(n // 8, 900), "${A}")),
    "a connection's address": lambda n: _connection({"url": "http://" + "a." * (n // 2)}),
    "a connection's query string": lambda n: _connection({"url": "http://a/?" + "password=x&" * (n // 11)}),
    "a chat's options": lambda n: _post("/api/chat", {"message": "x", "options": {f"o{each}": 1 for each in range(n // 10)}}),
    "a conversation's id": lambda n: _post("/api/chat", {"message": "x", "conversationId": "/" * n}),
    "a watcher's failures": lambda n: _post("/api/watchers/hostile", {
        "instance": "i", "state": "watching", "collection": COLLECTION, "started_at": "2026-11-22T08:30:00Z",
        "failures": [{"path": "p", "reason": "r"}] * (n // 32),
    }, "PUT"),
    "a query of MCP": lambda n: _call("rag_query", query="why " * (n // 4)),
    "collections of MCP": lambda n: _call("rag_query", query="x", collections=["a*"] * (n // 6)),
    "a topic of MCP": lambda n: _call("rag_context", topic="why " * (n // 4)),
    "a note": lambda n: _call("session_note", note="note " * (n // 5)),
    "a session's name": lambda n: _call("session_start", name="n" * n),
    "a message of MCP": lambda n: _post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "x" * n}),
    "a batch of MCP": lambda n: _post("/mcp", [{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * (n // 32)),
}  # fmt: skip

LINE_SHAPES: dict[str, Shape] = {
    "digits of a limit": lambda n: Made("", "GET", f"/collections/{COLLECTION}/documents?limit={'9' * n}"),
    "a filter in a line": lambda n: Made("", "GET", f"/collections/{COLLECTION}/documents?where={'%7B' * (n // 3)}"),
    "parameters": lambda n: Made("", "GET", "/collections?" + "&".join(f"p{each}=1" for each in range(n // 8))),
    "an order in a line": lambda n: Made("", "GET", f"/collections/{COLLECTION}/documents?order_by={'a,' * (n // 2)}"),
    "facets": lambda n: Made("", "GET", f"/collections/{COLLECTION}/facets?fields={'a,b' * (n // 3)}"),
    "a cursor": lambda n: Made("", "GET", f"/collections/{COLLECTION}/documents?cursor={'A' * n}"),
    "a path": lambda n: Made("", "GET", f"/collections/{'n' * n}"),
    "slashes": lambda n: Made("", "GET", f"/collections/{COLLECTION}/documents/{'/' * n}"),
    "a tool's digits": lambda n: Made("", "GET", f"/tools/rag_context_search?query=x&limit={'9' * n}"),
    "If-Match": lambda n: Made("", "DELETE", "/collections/nothing", headers={"If-Match": '"1",' * (n // 8)}),
    "If-None-Match": lambda n: Made(
        "", "GET", f"/collections/{COLLECTION}", headers={"If-None-Match": 'W/"1",' * (n // 8)}
    ),
    "Idempotency-Key": lambda n: Made("", "DELETE", "/collections/nothing", headers={"Idempotency-Key": "k" * (n // 8)}),
    "X-Document-Count": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/import", b"", {**LINES, "X-Document-Count": "9" * (n // 8)}
    ),
    "Content-Digest": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/import", b"", {**LINES, "Content-Digest": "sha-256=:" + "A" * (n // 8)}
    ),
}  # fmt: skip
"""Those in a request's line and headers, which have an end of their own."""

WRONG_TEXTS = (
    "", "-1", "9" * 5_000, "%00", "%FF", "%24%7BHOME%7D", "%7B%7D", "x" * 5_000, "[]", "1e9", "..%2F..%2Fetc%2Fpasswd", "%2F",
)  # fmt: skip
"""Of parameters, as they stand in a path."""

WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 1e308, -0.0, "", " ", "\0", "\ud800", "${RAG_CHAT_API_KEY}", "${file:/etc/passwd}", "%s%n",
    "../../etc/passwd", "'; DROP TABLE documents; --", "x" * 5_000, [], [None], [[]] * 50, {}, {"$gt": ""}, {"": {"": []}},
    ["${HOME}"], {"a": "${HOME}"},
)  # fmt: skip
"""One of each kind that a field may be given instead of what it takes."""


def of_the_description() -> dict[str, list[Made]]:
    """Requests by operation of openapi.yaml and by tool: as they should be, and with each wrong value once in the place
    of each parameter and each field, nested ones too."""
    contract = Contract.load()
    made: dict[str, list[Made]] = {}
    for template, item in contract.document["paths"].items():
        for method in (each for each in item if each.upper() in METHODS):
            operation = _Operation(contract, template, method)
            requests = [*operation.as_it_is(), *operation.parameters(), *operation.bodies(), *operation.lines()]
            made[operation.name] = requests
    for tool in TOOLS:
        made[f"tool {tool}"] = list(_tool(tool))
    return made


class _Operation:
    def __init__(self, contract: Contract, template: str, method: str) -> None:
        self.name = f"{method.upper()} {template}"
        self._contract = contract
        self._method = method.upper()
        self._at: Pointer = ("paths", template, method)
        self._template = template
        self._owners = (self._at[:2], self._at)
        self._name = "nothing" if self.name in DELETING_ALL else COLLECTION

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
            documents = [value, *(_document(**{name: value}) for name in _document(metadata={}))]
            body = b"\n".join(map(_written, documents))
            yield self._made(f"lines={_shown(value)}", self._path(), body, LINES)

    def _made(self, said: str, path: str, body: bytes = b"", headers: dict[str, str] = JSON) -> Made:
        return Made(f"{self.name} {said}", self._method, path, body, headers)

    def _path(self, **given: str) -> str:
        document_id = "a" if self._template.startswith("/collections") else "nothing"
        filled = {**FILLED, "name": self._name, "id": document_id, **given}
        return re.sub(r"\{(\w+)\}", lambda found: filled.get(found[1], "nothing"), self._template)

    def _example(self, media_type: str) -> Any:
        """One of the body, None when there is none of that type."""
        try:
            described = self._contract.at((*self._at, "requestBody", "content", media_type))
        except KeyError:
            return None
        examples = [each["value"] for each in described.get("examples", {}).values()]
        return [described.get("example"), *examples, {}][0 if "example" in described else 1]


def _field_paths(contract: Contract, schema: Pointer, levels: int = MAX_LEVELS) -> list[tuple[str, ...]]:
    """Where the schema has fields, "0" for the first element of a list."""
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
    """A copy of the example that has the value at the path, whatever has to be made for that."""
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
