"""The context tools (contract *context*), the same for `/tools` and MCP: how their arguments are read and their answers
spelt."""

from __future__ import annotations

from functools import partial
from typing import Any

from interfaces.tool import Tool, allowed_values, described_tool
from retrieval.context.layer import ContextLayer
from schemas.contracts.context import IndexedText
from schemas.settings import RetrievalSettings
from schemas.wire.context import (
    context_answer,
    context_document,
    context_health,
    context_query,
    context_stats,
    indexed_text,
    stats_range,
)


def context_tools(layer: ContextLayer, settings: RetrievalSettings) -> dict[str, Tool[Any]]:
    """Return the four tools by name, in the order in which they are listed."""
    tool = partial(described_tool, allowed=allowed_values(settings))
    tools: tuple[Tool[Any], ...] = (
        tool("rag_context_search", lambda given: layer.search(context_query(given)), context_answer),
        tool(
            "rag_context_index",
            lambda given: layer.index(context_document(given)),
            indexed_text,
            writes_to=settings.context_collection,
            kept_as=IndexedText,
        ),
        tool("rag_context_health", lambda _: layer.health(), context_health),
        tool("rag_context_stats", lambda given: layer.stats(stats_range(given)), context_stats),
    )
    return {each.name: each for each in tools}
