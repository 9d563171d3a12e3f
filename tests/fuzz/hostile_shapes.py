"""Requests that are to hurt: shapes that grow, and every field of the description with values of other kinds."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.tool_schemas import read_tool_schemas
from tests.support.contract import METHODS, Contract

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
COLLECTION = "hostile"
FILLED = {"name": COLLECTION, "provider": "chromadb-wrapper", "tool": "rag_context_search", "file": "swagger-ui.css"}
TOOLS = ("rag_context_search", "rag_context_index", "rag_context_health", "rag_context_stats")
MAX_LINE_BYTES = 30_000


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
    "refused lines": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/documents?on_conflict=error", (_json(_document()) + b"\n") * (n // 32), LINES
    ),
    "bad lines": lambda n: Made("", "POST", f"/collections/{COLLECTION}/documents", b"{}\n" * (n // 3), LINES),
    "deep brackets": lambda n: _post(f"/collections/{COLLECTION}/documents/search", b"[" * n),
    "deep objects": lambda n: _post(f"/collections/{COLLECTION}/documents/search", b'{"a":' * (n // 5)),
    "a phrase": lambda n: _words('"' + "ab " * (n // 3) + '"'),
    "phrases": lambda n: _words('"a b" ' * (n // 6)),
    "words": lambda n: _words(" ".join(f"w{each}" for each in range(n // 6))),
    "quotation marks": lambda n: _words('"' * n),
    "stars": lambda n: _words("a* " * (n // 3)),
    "a word to search for": lambda n: _words("w" * n),
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

WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 1e308, -0.0, "", " ", "\0", "\ud800", "${RAG_CHAT_API_KEY}", "${file:/etc/passwd}", "%s%n",
    "../../etc/passwd", "'; DROP TABLE documents; --", "x" * 5_000, [], [None], [[]] * 50, {}, {"$gt": ""}, {"": {"": []}},
    ["${HOME}"], {"a": "${HOME}"},
)  # fmt: skip
"""One of each kind that a field may be given instead of what it takes."""


def doubled(most: int, least: int = 16) -> Iterator[tuple[str, Shape, list[int]]]:
    """(name, shape, its sizes up to `most`, each twice the one before)."""
    for shapes, end in ((SHAPES, most), (LINE_SHAPES, min(most, MAX_LINE_BYTES))):
        for name, shape in shapes.items():
            sizes = [least << step for step in range(end.bit_length()) if least << step < end]
            yield name, shape, [*sizes, end]


def of_the_description() -> Iterator[Made]:
    """Every operation of openapi.yaml and every tool, each field and parameter of which has each wrong value once."""
    contract = Contract.load()
    for template, item in contract.document["paths"].items():
        for method in (each for each in item if each.upper() in METHODS):
            path = re.sub(r"\{(\w+)\}", lambda found: FILLED.get(found[1], "nothing-there"), template)
            yield from _parameters(contract, template, path, method)
            yield from _bodies(contract, template, path, method)
    for tool in TOOLS:
        for field_name in read_tool_schemas(tool).input["properties"]:
            for value in WRONG:
                given = {"query": "x", "content": "x", field_name: value}
                yield Made(f"{tool} {field_name}={_shown(value)}", "POST", f"/tools/{tool}", _written(given), JSON)
                call = {"name": tool, "arguments": given}
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
                accepted = {**JSON, "Accept": "application/json, text/event-stream"}
                yield Made(f"MCP {tool} {field_name}={_shown(value)}", "POST", "/mcp", _written(message), accepted)


def _parameters(contract: Contract, template: str, path: str, method: str) -> Iterator[Made]:
    for owner in (("paths", template), ("paths", template, method)):
        for index in range(len(contract.at(owner).get("parameters", []))):
            parameter = contract.at((*owner, "parameters", str(index)))
            if parameter["in"] == "query" and parameter["name"].isidentifier():
                for text in ("", "-1", "9" * 5_000, "%00", "%FF", "${HOME}", "%7B%7D", "x" * 5_000, "[]", "1e9"):
                    name = f"{method.upper()} {template}?{parameter['name']}={text[:20]}"
                    yield Made(name, method.upper(), f"{path}?{parameter['name']}={text}".replace("${", "%24%7B"))


def _bodies(contract: Contract, template: str, path: str, method: str) -> Iterator[Made]:
    media = ("paths", template, method, "requestBody", "content", "application/json")
    try:
        described = contract.at(media)
    except KeyError:
        return
    schemas = [(*media, "schema")]
    schemas += [(*media, "schema", "oneOf", str(each)) for each in range(len(described["schema"].get("oneOf", ())))]
    example = described.get("example") or next((each["value"] for each in described.get("examples", {}).values()), {})
    for value in WRONG:
        yield Made(f"{method.upper()} {template} body={_shown(value)}", method.upper(), path, _written(value), JSON)
    for schema in schemas:
        for name in contract.at(schema).get("properties", {}):
            for value in WRONG:
                given = {**example, name: value} if isinstance(example, dict) else {name: value}
                said = f"{method.upper()} {template} {name}={_shown(value)}"
                yield Made(said, method.upper(), path, _written(given), JSON)


def _written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _shown(value: Any) -> str:
    return ascii(value)[:40]
