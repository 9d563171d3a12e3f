"""A request to each route of the table of access, which names a collection where the route takes one, and requests that
tell a service texts and secrets, some of which it stores, and some of which it refuses. Calls of each tool of the
table, and their answers over both transports of MCP."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from mcp.shared.exceptions import MCPError

from schemas.access.table import TOOLS
from schemas.tool_schemas import read_tool_schemas
from tests.access.keyed import CANARY, MINE, KeyedService
from tests.support.mcp_clients import over_stdio

TOOL = "rag_context_health"
SENTENCE = "The door opens at nine."
RULE = {
    "filename": "hours.md",
    "content": SENTENCE,
    "metadata": {"source": "handbook", "doc_type": "ops", "last_update_date": "2025-10-02"},
}
NAME = "{name}"
PART = re.compile(r"\{(\w+)\}")
VECTOR = {"query_embedding": [1.0, 0.0]}
CHROMA = "/api/v2/tenants/{tenant}/databases/{database}/collections"
SELECTED = {"service": "local", "name": NAME, "embedding_connection": "default", "embedding_model": "all-MiniLM-L6-v2"}
BODIES: dict[str, Any] = {
    f"POST {CHROMA}": {"name": NAME},
    "POST /collections": {"name": "mine-docs"},
    "POST /collections/{name}/documents": {"documents": [{"id": "new", "text": "new", "embedding": [1.0, 0.0]}]},
    "DELETE /collections/{name}/documents": {"ids": ["nobody"]},
    "PATCH /collections/{name}": {"name": NAME},
    "POST /collections/{name}/copy": {"name": NAME},
    "POST /collections/{name}/reembed": {"back": True},
    "PUT /aliases/{alias}": {"collection": NAME},
    "PATCH /collections/{name}/documents": {"ids": ["open"], "metadata": {"seen": 1}},
    "PUT /collections/{name}/documents/{document_id}": {"text": "new", "embedding": [1.0, 0.0]},
    "PUT /collections/{name}/metadata": {"metadata": {}},
    "PATCH /collections/{name}/metadata": {"metadata": {}},
    "POST /collections/{name}/documents/search": {},
    "PATCH /collections/{name}/documents/{document_id}": {"metadata": {"seen": 1}},
    "POST /collections/{name}/query": VECTOR,
    "POST /query": {**VECTOR, "collection": NAME},
    "POST /collections/{name}/gather": {"ids": ["open"], "by": "group"},
    "POST /collections/{name}/text-search": {"query": "door"},
    "POST /collections/{name}/import": b'{"id": "new", "text": "new", "embedding": [1.0, 0.0]}\n',
    "POST /api/search": {"query": "door", "oracles": ["lexical"], "collections": [NAME]},
    "POST /dify/retrieval": {"knowledge_id": NAME, "query": "door", "retrieval_setting": {"score_threshold": 0}},
    "POST /v1/chat/completions": {
        "model": "rag",
        "messages": [{"role": "user", "content": "door"}],
        "vector_store_ids": [NAME],
    },
    "POST /v1/vector_stores/{vector_store_id}/search": {"query": "door"},
    "POST /v1/vector_stores": {"name": "mine-store"},
    "POST /v1/vector_stores/{vector_store_id}/files": {"file_id": "nobody"},
    "POST /v1/vector_stores/{vector_store_id}/file_batches": {"file_ids": ["nobody"]},
    "POST /v1/embeddings": {"model": "all-MiniLM-L6-v2", "input": "door"},
    "POST /api/rag/ingest": {"source": "handbook", "path": "hours.md", "title": "Hours", "text": SENTENCE},
    "POST /api/rag/documents:batch": {"documents": [RULE], "collection": NAME},
    "POST /api/rag/search": {"query": "door", "collections": [NAME]},
    "POST /api/rag/retrieve": {"query": "door", "context_key": "k", "collection": NAME, "min_relevance": 0},
    "POST /api/chat": {"messages": [{"role": "user", "content": "door"}], "useRag": True, "collections": [NAME]},
    "POST /api/documents": SENTENCE.encode(),
    "POST /api/documents/compare": {"collection": NAME, "files": []},
    "POST /api/judgements": {"question": "door", "collection": NAME, "document_id": "open", "grade": 1},
    "POST /api/bench": {"collection": NAME},
    "POST /api/collect": {"userMessage": "door", "selectedCollections": [SELECTED]},
}
"""Bodies with which requests get as far as the collection; others are refused for their bodies, after their callers were
judged."""
HEADERS = {
    "POST /collections/{name}/import": {"Content_Type": "application/x-ndjson"},
    "POST /api/documents": {"Content_Type": "text/plain", "X_Filename": "hours.txt"},
}
QUERIES = {
    "GET /collections/{name}/facets": "fields=group",
    "GET /collections/{name}/metadata-values": "field=group",
    "GET /api/rag/documents": "collection={name}",
    "DELETE /api/rag/documents/{document_id}": "collection={name}",
    "POST /api/documents": "collection={name}",
    "GET /api/documents": "collection={name}",
    "GET /api/documents/{document_id}": "collection={name}",
    "DELETE /api/documents/{document_id}": "collection={name}",
    "GET /api/documents/{document_id}/original": "collection={name}",
    "GET /api/query-set": "collection={name}",
}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    """Named with underscores."""


def request_to(route: str, collection: str | None = MINE, document: str = "nobody") -> Request:
    """Return a request to a route that names the collection wherever the route takes it; for None, only paths name
    one."""
    method, _, path = route.partition(" ")
    query = QUERIES.get(route, "")
    if query and (collection is not None or NAME not in query):
        path += f"?{query}"
    database = "default_database" if "/collections" in path else "nobody"
    known = {
        "name": collection or "",
        "vector_store_id": collection or "",
        "document_id": document,
        "tool": TOOL,
        "alias": "mine-alias",
        "tenant": "default_tenant",
        "database": database,
    }
    path = PART.sub(lambda part: known.get(part[1], "nobody"), path)
    body = _with_name(BODIES.get(route, {} if method in ("POST", "PUT", "PATCH") else None), collection)
    return Request(method, path, body, HEADERS.get(route, {}))


def _with_name(body: Any, collection: str | None) -> Any:
    if isinstance(body, dict):
        kept = {name: value for name, value in body.items() if collection is not None or value not in (NAME, [NAME])}
        return {name: _with_name(value, collection) for name, value in kept.items()}
    if isinstance(body, list):
        return [_with_name(value, collection) for value in body]
    return collection if body == NAME else body


JSON = {"Content_Type": "application/json"}


class Told(NamedTuple):
    path: str
    body: Any = None
    statuses: tuple[int, ...] = (200,)
    """What may be answered."""
    method: str = "POST"
    headers: Mapping[str, str] = {}


def telling(text: str, word: str, secret: str) -> list[Told]:
    """Return requests, one after the other, with a text that contains the word, and with a secret."""
    place, connections = f"/collections/{MINE}", "/api/connections"
    document = {"id": "logged", "text": text, "metadata": {"said": text}, "embedding": [1.0, 0.0]}
    line = orjson.dumps({"id": "line", "text": text, "embedding": [1.0, 0.0]})
    lines = line + b"\n" + line[:-5] + b"\n"
    itself = {"type": "rag", "provider": "chromadb-wrapper"}
    nobody = {"url": "http://127.0.0.1:9", "api_key": secret}
    rules = [
        {**RULE, "content": text},
        {**RULE, "content": text, "metadata": {"source": word}},
        *({**RULE, "metadata": {**RULE["metadata"], name: word}} for name in ("doc_type", "last_update_date")),
        {**RULE, "content": f"# {text}\n\n" + "A sentence of a section without an end. " * 500},
    ]

    def call(tool: str, **arguments: Any) -> Told:
        params = {"name": tool, "arguments": arguments}
        return Told("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    def uploaded(name: str) -> Told:
        headers = {"Content_Type": "application/octet-stream", "X_Filename": name}
        return Told("/api/documents?collection=mine-logged", text.encode(), (202,), headers=headers)

    return [
        Told(f"{place}/documents", {"documents": [document]}, (201, 202)),
        Told(f"{place}/documents", {"documents": [{**document, "embedding": [1.0]}]}, (400,)),
        Told(f"{place}/documents", f'{{"documents": [{{"text": "{text}"'.encode(), (400,), headers=JSON),
        Told(f"{place}/import", lines, (400,), headers=HEADERS["POST /collections/{name}/import"]),
        Told(f"{place}/documents/logged", {"metadata": {"said": f"{text}!"}}, method="PATCH"),
        Told(f"{place}/documents/search", {"where": {"said": {"$nope": text}}}, (400,)),
        Told(f"{place}/text-search", {"query": text}),
        Told(f"{place}/text-search", {"query": [text]}, (400,)),
        Told("/api/search", {"query": text}),
        Told("/api/rag/search", {"query": text}),
        Told("/api/rag/retrieve", {"query": text, "context_key": "k"}),
        Told("/tools/rag_context_search", {"query": text}),
        Told("/api/chat", {"messages": [{"role": "user", "content": text}]}),
        Told("/api/rag/documents:batch", {"documents": rules, "collection": "mine-logged"}),
        uploaded("logged.md"),
        uploaded("logged.pdf"),
        call("session_start", name="logged"),
        call("session_note", note=text),
        call("session_note", note=[text]),
        call("rag_query", query="x", where={"said": {"$nope": text}}),
        call("session_end", summary=text),
        Told(f"{connections}/test", {**itself, "config": nobody}),
        Told(f"{connections}/test", {**itself, "config": {"url": f"http://somebody:{secret}@127.0.0.1:9"}}),
        Told(connections, {"id": "logged", **itself, "config": nobody}, (201,)),
        Told(f"{connections}/logged", method="GET"),
        Told(f"{connections}/logged", method="DELETE"),
    ]


Json = dict[str, Any]
ARGUMENTS: dict[str, list[Json]] = {
    "rag_query": [{"query": "door", "oracles": ["lexical"]}, {"query": "door"}],
    "rag_context": [{"topic": "door"}, {}],
    "rag_gather": [{"collection": MINE, "chunk_id": "open", "by": "section"}],
    "rag_context_search": [{"query": "door"}],
    "rag_context_index": [{"content": "The door opens at nine."}],
    "session_start": [{"name": "a session"}],
    "session_note": [{"note": "The door sticks."}],
}
"""Arguments with which each tool does something for whoever may call it."""


class Call(NamedTuple):
    tool: str
    arguments: Json


class Outcome(NamedTuple):
    is_error: bool
    text: str
    """All that came back."""


CALLS = [Call(tool, arguments) for tool in TOOLS for arguments in ARGUMENTS.get(tool, [{}])]


def naming(collection: str) -> list[Call]:
    """Return a call for each way in which a tool may name a collection, with a chunk of somebody else where the tool
    asks for one."""
    found = []
    for tool, given in CALLS:
        known = read_tool_schemas(tool).input["properties"]
        for name, value in (("collection", collection), ("collections", [collection])):
            if name in known:
                chunk = {"chunk_id": f"{CANARY}-1"} if "chunk_id" in known else {}
                found.append(Call(tool, {**given, name: value, **chunk}))
    return found


def called_over_http(keyed: KeyedService, kind: str, calls: Sequence[Call]) -> tuple[set[str], list[Outcome]]:
    """Return (the tools that a key of this kind is offered, the outcome of each call)."""

    def ask(method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"MCP_Protocol_Version": "2025-06-18", "Accept": "application/json, text/event-stream"}
        return keyed.ask("POST", "/mcp", keyed.keys[kind], message, **headers)

    def outcome(call: Call) -> Outcome:
        answer = ask("tools/call", name=call.tool, arguments=call.arguments)
        found = answer.json()
        return Outcome("error" in found or bool(found["result"].get("isError")), answer.text)

    return {each["name"] for each in ask("tools/list").json()["result"]["tools"]}, list(map(outcome, calls))


async def called_over_stdio(keyed: KeyedService, kind: str, calls: Sequence[Call]) -> tuple[set[str], list[Outcome]]:
    """Return the same from `rag-wrapper mcp`."""
    outcomes = []
    async with over_stdio("--url", keyed.url, api_key=keyed.keys[kind]) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        for call in calls:
            try:
                result = await client.call_tool(call.tool, call.arguments)
            except MCPError as error:
                outcomes.append(Outcome(True, str(error)))
            else:
                outcomes.append(Outcome(bool(result.is_error), result.model_dump_json()))
    return listed, outcomes
