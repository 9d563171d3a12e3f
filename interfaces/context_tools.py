"""The context tools (contract *context*), the same for `/tools` and MCP: how their arguments are read and their answers
spelt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from interfaces.tool import Json, Tool
from retrieval.context.layer import ContextLayer
from schemas.contracts.context import IndexedText
from schemas.settings import RetrievalSettings
from schemas.tool_schemas import read_tool_schemas
from schemas.wire.context import (
    context_answer,
    context_document,
    context_health,
    context_query,
    context_stats,
    indexed_text,
    stats_range,
)

OutcomeT = TypeVar("OutcomeT")

SEARCH, INDEX = "rag_context_search", "rag_context_index"
HEALTH, STATS = "rag_context_health", "rag_context_stats"


def context_tools(layer: ContextLayer, settings: RetrievalSettings) -> dict[str, Tool[Any]]:
    """Return the four tools by name, in the order in which they are listed."""
    allowed = {"category": settings.context_categories, "contentType": settings.context_content_types}

    def tool(
        name: str, run: Callable[[Json], OutcomeT], spell: Callable[[OutcomeT], Json], **hints: Any
    ) -> Tool[OutcomeT]:
        return Tool(name, *read_tool_schemas(name, allowed), run, spell, **hints)

    tools: tuple[Tool[Any], ...] = (
        tool(SEARCH, lambda given: layer.search(context_query(given)), context_answer),
        tool(
            INDEX,
            lambda given: layer.index(context_document(given)),
            indexed_text,
            read_only=False,
            writes_to=settings.context_collection,
            kept_as=IndexedText,
        ),
        tool(HEALTH, lambda _: layer.health(), context_health),
        tool(STATS, lambda given: layer.stats(stats_range(given)), context_stats),
    )
    return {each.name: each for each in tools}
