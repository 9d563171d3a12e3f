"""What answers of several subjects are made of.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict


class CollectionsAskedItem(TypedDict):
    status: Literal["asked"]


class CollectionsAskedItem1(TypedDict):
    status: Literal["left_out"]
    reason: str


class Index(TypedDict):
    collection: str
    state: Literal["pending", "ready", "rebuilding", "adopting"]
    documents: int
    records: Literal["full", "vectors"] | None
    documents_held: int | None
    waiting_writes: int
    standing_still: Standstill | None
    set_aside: IndexSetAside
    stored_bytes: int
    index_bytes: int | None
    fault: str | None
    checked_at: str | None
    recall_at_10: float | None
    filtered_recall_at_10: float | None
    recall_measured_at: str | None
    search_width: int | None
    rebuild: Rebuild | None
    rebuilds: int
    warnings: NotRequired[list[str]]


class IndexSetAside(TypedDict):
    """Documents that the engine cannot take."""

    documents: int
    first: list[SetAside]


class Rebuild(TypedDict):
    reason: str
    documents: int
    of: int


class SearchReceipt(TypedDict):
    strategy: NotRequired[str]
    query_text: NotRequired[str]
    asked_text: NotRequired[str]
    fusion: Literal["smoothed", "scores", "rrf"]
    compared_by: NotRequired[Literal["vectors and words", "words"]]
    min_relevance: NotRequired[float]
    below_min_relevance: NotRequired[int]
    max_per_document: NotRequired[int]
    held_back: NotRequired[int]
    rerank: NotRequired[SearchReceiptRerank]
    oracles: dict[str, SearchReceiptOracle]
    rrf_k: int
    fetch_multiplier: int
    fetched: int
    weights: dict[str, float]
    collections: CollectionsAsked
    collections_not_named: NotRequired[int]


class SearchReceiptOracle(TypedDict):
    status: Literal["ok", "failed", "unavailable"]
    count: int
    latency_ms: float
    error: NotRequired[str]
    left_out: NotRequired[dict[str, str]]
    plans: NotRequired[dict[str, SearchReceiptOraclePlan]]


class SearchReceiptOraclePlan(TypedDict):
    plan: QueryPlan
    compared: NotRequired[int]
    recall_at_10: NotRequired[float]


class SearchReceiptRerank(TypedDict):
    """Only with `rerank`, what came of it; after a failure the results are in the order without it."""

    connection: str
    status: Literal["ok", "failed"]
    count: int
    latency_ms: float
    error: NotRequired[str]


class SetAside(TypedDict):
    id: str
    reason: str
    since: str


class Standstill(TypedDict):
    reason: str
    since: str


CollectionsAsked: TypeAlias = dict[str, CollectionsAskedItem | CollectionsAskedItem1]


Metric: TypeAlias = Literal["cosine", "l2", "ip"]


QueryPlan: TypeAlias = Literal["memory", "index", "exact", "index+filter", "scan", "empty"]


Relevance: TypeAlias = float | None
