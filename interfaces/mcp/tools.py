"""The tools that MCP clients see: thin calls into the retrieval layer, and the tools of that layer itself."""

from __future__ import annotations

from typing import Any

from interfaces.layers import Layers
from interfaces.mcp.bounds import MOST_AROUND, around_hit
from interfaces.tool import Json, Tool, described_tool
from retrieval.search.hits import gather_around
from schemas.access.callers import current
from schemas.connections import CollectionInfo
from schemas.contracts.project_context import ProjectContext
from schemas.contracts.search import SearchAnswer, SearchRequest
from schemas.contracts.sessions import Note
from schemas.names import asked_collections
from schemas.records import Group
from schemas.where import parse_where
from schemas.wire.search import gathered_group, search_answer, text_collections
from schemas.wire.sessions import ended_session, kept_note, project_context, started_session

FIELD_OF = {"section": "section_id", "document": "document_id"}
"""The field of the metadata that the chunks of one section, or of one document, share."""


def mcp_tools(layers: Layers) -> dict[str, Tool[Any]]:
    """Return all tools by name."""
    own: list[Tool[Any]] = [
        described_tool(
            "rag_query",
            lambda asked: _query(layers, asked),
            search_answer,
            waits=lambda asked: asked.get("rerank") is not None,
        ),
        described_tool("rag_context", lambda asked: _context(layers, asked), project_context),
        described_tool("rag_gather", lambda asked: _gather(layers, asked), lambda found: gathered_group(*found)),
        described_tool("rag_collections", lambda asked: _collections(layers, asked), text_collections),
        described_tool(
            "session_start",
            lambda asked: layers.notes.start(asked["name"], asker=current().asker, shared=bool(asked.get("shared"))),
            started_session,
        ),
        described_tool("session_note", lambda asked: _note(layers, asked), kept_note),
        described_tool(
            "session_end",
            lambda asked: layers.notes.end(asked.get("session_id"), asked.get("summary"), asker=current().asker),
            ended_session,
        ),
    ]
    return {tool.name: tool for tool in (*own, *layers.tools.values())}


def _query(layers: Layers, asked: Json) -> SearchAnswer:
    oracles = asked.get("oracles")
    request = SearchRequest(
        asked["query"],
        asked["limit"],
        oracles=None if oracles is None else tuple(oracles),
        collections=asked_collections(asked),
        where=parse_where(asked.get("where")),
        fusion=asked.get("fusion"),
        min_relevance=asked.get("min_relevance"),
        rerank=asked.get("rerank"),
        max_per_document=asked.get("max_per_document"),
        asker=current().asker,
    )
    return layers.search.search(request)


def _context(layers: Layers, asked: Json) -> ProjectContext:
    return layers.project_context.write(
        asked.get("topic"),
        asked_collections(asked),
        where=parse_where(asked.get("where")),
        asker=current().asker,
    )


def _collections(layers: Layers, asked: Json) -> list[CollectionInfo]:
    found = sorted(layers.corpus.open().provider.collections(), key=lambda each: each.name)
    return [each for each in found if each.name > asked.get("after", "")]


def _gather(layers: Layers, asked: Json) -> tuple[str, str, Group, list[str]]:
    """Return (collection, `section` or `document`, what was gathered, sentences on what is left out)."""
    collection, by = asked["collection"], asked["by"]
    usual = MOST_AROUND if asked.keys().isdisjoint(("before", "after")) else None
    found = gather_around(
        layers.corpus.open(),
        collection,
        asked["chunk_id"],
        FIELD_OF[by],
        before=asked.get("before", usual),
        after=asked.get("after", usual),
    )
    return collection, by, *around_hit(found, asked["max_tokens"])


def _note(layers: Layers, asked: Json) -> Note:
    return layers.notes.note(asked["note"], asked.get("session_id"), asked.get("supersedes"), asker=current().asker)
