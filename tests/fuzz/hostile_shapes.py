"""Make hostile requests: shapes that grow."""

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

JSON = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
GZIP = {**JSON, "Content-Encoding": "gzip"}
PACKED_LINES = {**LINES, "Content-Encoding": "gzip"}
COLLECTION = "hostile"
MCP = {**JSON, "Accept": "application/json, text/event-stream"}
MAX_LINE_BYTES = 30_000


@dataclass(frozen=True, slots=True)
class Made:
    """A request and its name in a report."""

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


def document_with(**fields: Any) -> dict[str, Any]:
    return {"id": "hurt", "text": "x", "embedding": [0.6, 0.8], **fields}


def _add(**fields: Any) -> Made:
    return _post(f"/collections/{COLLECTION}/documents", {"documents": [document_with(**fields)]})


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
    "combining marks": lambda n: "a" + "\u0301" * (n // 2),
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
    "refused lines": lambda n: _lines((_json(document_with()) for _ in range(n // 32)), "error"),
    "lines of one id": lambda n: _lines(_json(document_with(text=str(each))) for each in range(n // 64)),
    "lines that are there": lambda n: _lines((_json(document_with(id=f"line-{each}")) for each in range(n // 64)), "error"),
    "lines that become one another": lambda n: _lines(
        _json(document_with(id=f"turn-{each % 2}", text=str(each))) for each in range(n // 64)
    ),
    "blank lines": lambda n: _lines(b"" for _ in range(n)),
    "an import of one id": lambda n: _lines((_json(document_with(text=str(each))) for each in range(n // 64)), path="import"),
    "an import of bad lines": lambda n: _lines((b"{}" for _ in range(n // 3)), path="import"),
    "packed bad lines": lambda n: Made(
        "", "POST", f"/collections/{COLLECTION}/documents", gzip.compress(b"{}\n" * (n * 16)), PACKED_LINES
    ),
    "bad lines": lambda n: _lines(b"{}" for _ in range(n // 3)),
    "lines that are no JSON": lambda n: _lines(b"x" for _ in range(n // 2)),
    "lines of zeros": lambda n: _lines(_json(document_with(embedding=[0, 0])) for _ in range(n // 64)),
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
        "instance": "i", "state": "watching", "collection": COLLECTION,
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
"""The shapes of a request's line and headers, which have limits of their own."""
