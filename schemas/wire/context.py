"""Arguments of the context tools, and their answers as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.configuration import JsonSchema
from schemas.connections import HEALTHY
from schemas.contracts.context import (
    TEXT_SEARCH,
    VECTOR_STORE,
    ContextAnswer,
    ContextDocument,
    ContextHealthReport,
    ContextItem,
    ContextQuery,
    ContextStats,
    IndexedText,
    PartHealth,
    TimeRange,
)
from schemas.names import asked_collections
from schemas.where import parse_where
from schemas.wire.search import collections_receipt

Json = dict[str, Any]

_PARTS = {VECTOR_STORE: "vectorStore", TEXT_SEARCH: "textSearch"}
"""The parts of a health report that JSON names in camel case."""


def context_query(arguments: Json) -> ContextQuery:
    """Read the checked arguments of `rag_context_search`. Raises InvalidInputError for wrong names of collections."""
    return ContextQuery(
        arguments["query"],
        int(arguments["limit"]),
        asked_collections(arguments),
        category=arguments.get("category"),
        session_id=arguments.get("sessionId"),
        content_type=arguments.get("contentType"),
        game=arguments.get("game"),
        agent=arguments.get("agent"),
        min_relevance=arguments["min_relevance"],
        where=parse_where(arguments.get("where")),
    )


def context_document(arguments: Json) -> ContextDocument:
    """Read the checked arguments of `rag_context_index`."""
    return ContextDocument(
        arguments["content"],
        source=arguments.get("source"),
        session_id=arguments.get("sessionId"),
        content_type=arguments.get("contentType"),
        agent=arguments.get("agent"),
        metadata=arguments.get("metadata", {}),
    )


def stats_range(arguments: Json) -> TimeRange:
    """Read the checked arguments of `rag_context_stats`."""
    asked: TimeRange = arguments["timeRange"]
    return asked


def listed_tools(described: Iterable[Json]) -> Json:
    return {"tools": list(described)}


def described_tool(
    name: str, description: str, input_schema: JsonSchema, output_schema: JsonSchema, *, read_only: bool
) -> Json:
    return {
        "name": name,
        "description": description,
        "inputSchema": input_schema,
        "outputSchema": output_schema,
        "annotations": {"readOnlyHint": read_only},
    }


def indexed_text(indexed: IndexedText) -> Json:
    return {
        "success": True,
        "chunksIndexed": len(indexed.chunk_ids),
        "vectorIds": indexed.chunk_ids,
        "latencyMs": indexed.latency_ms,
        "documentId": indexed.document_id,
    }


def context_answer(answer: ContextAnswer) -> Json:
    said = {
        "results": [_item(each) for each in answer.results],
        "latency": answer.latency_ms,
        "fallback": answer.fallback,
        "fallbackLevel": answer.fallback_level,
        "circuitBreakerOpen": answer.circuit_breaker_open,
        "totalIndexed": answer.total_indexed,
    }
    return said if answer.receipt is None else said | {"receipt": collections_receipt(answer.receipt)}


def _item(item: ContextItem) -> Json:
    return {
        "content": item.content,
        "score": item.score,
        "relevance": item.relevance,
        "source": item.source,
        "timestamp": item.timestamp,
        "metadata": item.metadata
        | {
            "documentId": item.document_id,
            "chunkIndex": item.chunk_index,
            "collection": item.collection,
            "chunkId": item.chunk_id,
        },
    }


def context_health(report: ContextHealthReport) -> Json:
    return {
        "healthy": report.status == HEALTHY,
        "status": report.status,
        **{_PARTS.get(name, name): _part(part) for name, part in report.parts.items()},
        "latency": report.latency_ms,
        "indexedDocuments": report.indexed_documents,
        "circuitBreakerOpen": report.circuit_breaker_open,
        "timestamp": report.timestamp,
    }


def _part(part: PartHealth) -> Json:
    said: Json = {"healthy": part.healthy, "latencyMs": part.latency_ms}
    return said if part.error is None else said | {"error": part.error}


def context_stats(stats: ContextStats) -> Json:
    return {
        "timeRange": stats.time_range,
        "totalDocuments": stats.total_documents,
        "totalQueries": stats.total_queries,
        "avgLatency": stats.average_latency_ms,
        "p95Latency": stats.p95_latency_ms,
        "p99Latency": stats.p99_latency_ms,
        "cacheHitRate": stats.cache_hit_rate,
        "fallbackRate": stats.fallback_rate,
        "queriesByAgent": dict(stats.queries_by_agent),
    }
