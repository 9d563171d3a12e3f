"""Requests that tell a service texts and secrets, some of which it stores, and some of which it refuses."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from tests.access.asking import HEADERS, RULE
from tests.access.keyed import MINE

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
        Told(f"{connections}/test", {**itself, "config": nobody}, (400, 502, 503)),
        Told(f"{connections}/test", {**itself, "config": {"url": f"http://somebody:{secret}@127.0.0.1:9"}}, (400,)),
        Told(connections, {"id": "logged", **itself, "config": nobody}, (201,)),
        Told(f"{connections}/logged", method="GET"),
        Told(f"{connections}/logged", method="DELETE"),
    ]
