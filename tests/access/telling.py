"""Requests that tell a service texts and secrets, some of which it stores, and some of which it refuses."""

from __future__ import annotations

from typing import Any

import orjson

from tests.access.asking import HEADERS, RULE
from tests.access.keyed import MINE

Told = tuple[tuple[int, ...], str, str, Any, dict[str, str]]
"""(What may be answered, method, path, body, headers)."""


def telling(text: str, word: str, secret: str) -> list[Told]:
    """Return requests, one after the other, with a text that contains the word, and with a secret."""
    place, json = f"/collections/{MINE}", {"Content_Type": "application/json"}
    document = {"id": "logged", "text": text, "metadata": {"said": text}, "embedding": [1.0, 0.0]}
    line = orjson.dumps({"id": "line", "text": text, "embedding": [1.0, 0.0]})
    itself = {"type": "rag", "provider": "chromadb-wrapper"}

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}

    def uploaded(name: str) -> Told:
        headers = {"Content_Type": "application/octet-stream", "X_Filename": name}
        return (202,), "POST", "/api/documents?collection=mine-logged", text.encode(), headers

    return [
        ((201, 202), "POST", f"{place}/documents", {"documents": [document]}, {}),
        ((400,), "POST", f"{place}/documents", {"documents": [{**document, "embedding": [1.0]}]}, {}),
        ((400,), "POST", f"{place}/documents", f'{{"documents": [{{"text": "{text}"'.encode(), json),
        (
            (400,),
            "POST",
            f"{place}/import",
            line + b"\n" + line[:-5] + b"\n",
            HEADERS["POST /collections/{name}/import"],
        ),
        ((200,), "PATCH", f"{place}/documents/logged", {"metadata": {"said": f"{text}!"}}, {}),
        ((400,), "POST", f"{place}/documents/search", {"where": {"said": {"$nope": text}}}, {}),
        ((200,), "POST", f"{place}/text-search", {"query": text}, {}),
        ((400,), "POST", f"{place}/text-search", {"query": [text]}, {}),
        ((200,), "POST", "/api/search", {"query": text}, {}),
        ((200,), "POST", "/api/rag/search", {"query": text}, {}),
        ((200,), "POST", "/api/rag/retrieve", {"query": text, "context_key": "k"}, {}),
        ((200,), "POST", "/tools/rag_context_search", {"query": text}, {}),
        ((200,), "POST", "/api/chat", {"messages": [{"role": "user", "content": text}]}, {}),
        (
            (200,),
            "POST",
            "/api/rag/documents:batch",
            {
                "documents": [
                    {**RULE, "content": text},
                    {**RULE, "content": text, "metadata": {"source": word}},
                    *(
                        {**RULE, "metadata": {**RULE["metadata"], name: word}}
                        for name in ("doc_type", "last_update_date")
                    ),
                    {**RULE, "content": f"# {text}\n\n" + "A sentence of a section without an end. " * 500},
                ],
                "collection": "mine-logged",
            },
            {},
        ),
        uploaded("logged.md"),
        uploaded("logged.pdf"),
        ((200,), "POST", "/mcp", call("session_start", name="logged"), {}),
        ((200,), "POST", "/mcp", call("session_note", note=text), {}),
        ((200,), "POST", "/mcp", call("session_note", note=[text]), {}),
        ((200,), "POST", "/mcp", call("rag_query", query="x", where={"said": {"$nope": text}}), {}),
        ((200,), "POST", "/mcp", call("session_end", summary=text), {}),
        (
            (400, 502, 503),
            "POST",
            "/api/connections/test",
            {**itself, "config": {"url": "http://127.0.0.1:9", "api_key": secret}},
            {},
        ),
        (
            (400,),
            "POST",
            "/api/connections/test",
            {**itself, "config": {"url": f"http://somebody:{secret}@127.0.0.1:9"}},
            {},
        ),
        (
            (201,),
            "POST",
            "/api/connections",
            {"id": "logged", **itself, "config": {"url": "http://127.0.0.1:9", "api_key": secret}},
            {},
        ),
        ((200,), "GET", "/api/connections/logged", None, {}),
        ((200,), "DELETE", "/api/connections/logged", None, {}),
    ]
