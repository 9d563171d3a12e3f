"""Requests to the collector and its answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.records import Metadata
from schemas.where import EVERYTHING, Where

MATCH, PARTIAL, NONE, FAILED = "match", "partial", "none", "failed"


@dataclass(frozen=True, slots=True)
class SelectedCollection:
    """A collection to ask for documents that match `where`.

    `service` is a connection's id. `embedding_connection` is the one that embedded its documents, with
    `embedding_model`, or with the connection's own model when that is None.
    """

    service: str
    name: str
    embedding_connection: str
    embedding_model: str | None = None
    where: Where = EVERYTHING


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """One request to the collector, for documents that match `where`.

    `topic` is the conversation's topic including this message; `current_topic` is the one before it, empty at the first
    message. Thresholds are distances; None leaves them to collection, connection and service, in this order.
    """

    user_message: str
    topic: str
    current_topic: str
    collections: tuple[SelectedCollection, ...]
    top_k: int = 3
    match_threshold: float | None = None
    partial_threshold: float | None = None
    query_text: str | None = None
    where: Where = EVERYTHING


@dataclass(frozen=True, slots=True)
class CollectedDocument:
    id: str
    text: str
    title: str | None
    source: str | None
    metadata: Metadata
    collection: str


@dataclass(frozen=True, slots=True)
class CollectedResult:
    """The documents of one collection; `distance` is that of the nearest one."""

    result_type: str
    service: str
    collection: str
    documents: list[CollectedDocument]
    distance: float
    description: str | None


@dataclass(frozen=True, slots=True)
class CollectionReceipt:
    """A record of how one collection was asked. `status` is match, partial, none or failed; `distance` None means no
    documents."""

    service: str
    collection: str
    status: str
    distance: float | None
    latency_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CollectReceipt:
    """A record of how a request was answered.

    `embeddings_generated` counts calls of embedding services. `embeddings_reused` counts collections that were asked
    with an embedding made earlier or for another collection.
    """

    strategy: str
    query_text: str
    embeddings_generated: int
    embeddings_reused: int
    collections: list[CollectionReceipt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collected:
    """The collector's answer; `results` holds the one match, all partial ones in the order asked, or nothing."""

    result: str
    results: list[CollectedResult]
    receipt: CollectReceipt
