"""The tools that MCP clients see: thin calls into the retrieval layer, and the tools of that layer itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interfaces.layers import Layers
from interfaces.web import current_request
from retrieval.search.gathering import gather_around
from retrieval.tool import Tool
from schemas.contracts.search import SearchRequest
from schemas.names import asked_collections
from schemas.tool_schemas import read_tool_schemas
from schemas.wire.search import gathered_group, search_answer, text_collections
from schemas.wire.sessions import ended_session, kept_note, project_context, started_session

Json = dict[str, Any]

FIELD_OF = {"section": "section_id", "document": "document_id"}
"""The field of the metadata that the chunks of one section, or of one document, share."""


def mcp_tools(layers: Layers) -> dict[str, Tool]:
    """Return all tools by name."""
    own = [
        _tool(
            "rag_query",
            "Search the knowledge base. Results are fused from semantic search, lexical search and the notes of "
            "sessions, best first, each with who found it at which rank.",
            lambda asked: _query(layers, asked),
        ),
        _tool(
            "rag_context",
            "Get project context and rules: what rules, documents and notes say on a topic, as one text with its "
            "sources. Without a topic: an overview of collections, documents and the newest notes.",
            lambda asked: _context(layers, asked),
        ),
        _tool(
            "rag_gather",
            "Read the whole section or the whole document around a result of rag_query or rag_context.",
            lambda asked: _gather(layers, asked),
        ),
        _tool(
            "rag_collections",
            "List the collections with the number of chunks in each and their metadata.",
            lambda asked: _collections(layers),
        ),
        _writing_tool(
            "session_start",
            "Start a session: notes are kept under its name until it is ended.",
            lambda asked: _session_start(layers, asked),
        ),
        _writing_tool(
            "session_note",
            "Keep an insight as a note, found from now on by rag_query and rag_context. A note may replace an earlier "
            "one that is no longer true.",
            lambda asked: _session_note(layers, asked),
        ),
        _writing_tool(
            "session_end",
            "End a session. Its notes stay, and the summary is kept like one.",
            lambda asked: _session_end(layers, asked),
        ),
    ]
    return {tool.name: tool for tool in (*own, *layers.tools.values())}


def _tool(name: str, description: str, run: Callable[[Json], Json]) -> Tool:
    return Tool(name, description, *read_tool_schemas(name), run)


def _writing_tool(name: str, description: str, run: Callable[[Json], Json]) -> Tool:
    return Tool(name, description, *read_tool_schemas(name), run, read_only=False, idempotent=False)


def _query(layers: Layers, asked: Json) -> Json:
    oracles = asked.get("oracles")
    request = SearchRequest(
        asked["query"],
        asked["limit"],
        oracles=None if oracles is None else tuple(oracles),
        collections=asked_collections(asked),
        owner=current_request.owner(),
    )
    return search_answer(layers.search.search(request))


def _context(layers: Layers, asked: Json) -> Json:
    written = layers.project_context.write(asked.get("topic"), asked_collections(asked), owner=current_request.owner())
    return project_context(written)


def _gather(layers: Layers, asked: Json) -> Json:
    collection, by = asked["collection"], asked["by"]
    group = gather_around(layers.corpus.open(), collection, asked["chunk_id"], FIELD_OF[by])
    return gathered_group(collection, by, group)


def _collections(layers: Layers) -> Json:
    return text_collections(layers.corpus.open().provider.collections())


def _session_start(layers: Layers, asked: Json) -> Json:
    return started_session(layers.notes.start(asked["name"], owner=current_request.owner()))


def _session_note(layers: Layers, asked: Json) -> Json:
    note = layers.notes.note(
        asked["note"], asked.get("session_id"), asked.get("supersedes"), owner=current_request.owner()
    )
    return kept_note(note)


def _session_end(layers: Layers, asked: Json) -> Json:
    return ended_session(layers.notes.end(asked.get("session_id"), asked.get("summary"), owner=current_request.owner()))
