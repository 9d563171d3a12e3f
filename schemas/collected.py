"""What a collector is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.records import Metadata

MATCH, PARTIAL, NONE, FAILED = "match", "partial", "none", "failed"


@dataclass(frozen=True, slots=True)
class SelectedCollection:
    """A collection to ask. `service` is a connection's id; `embedding_connection` is the one that its documents'
    embeddings came from, `embedding_model` None for that connection's own."""

    service: str
    name: str
    embedding_connection: str
    embedding_model: str | None = None


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """`topic` is the conversation's topic with this message, `current_topic` the one before it, empty at the first
    message. A threshold is a distance; None leaves it to collections, connections and the service, in this order."""

    user_message: str
    topic: str
    current_topic: str
    collections: tuple[SelectedCollection, ...]
    top_k: int = 3
    match_threshold: float | None = None
    partial_threshold: float | None = None
    query_text: str | None = None


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
    """What one collection had to say. `distance` is its nearest document's."""

    result_type: str
    service: str
    collection: str
    documents: list[CollectedDocument]
    distance: float
    description: str | None


@dataclass(frozen=True, slots=True)
class CollectionReceipt:
    """How one collection was asked. `status` is match, partial, none or failed; `distance` None when it has nothing."""

    service: str
    collection: str
    status: str
    distance: float | None
    latency_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CollectReceipt:
    """The way taken. `embeddings_generated` counts calls of embedding services, `embeddings_reused` collections that
    were asked with an embedding made before or for another collection."""

    strategy: str
    query_text: str
    embeddings_generated: int
    embeddings_reused: int
    collections: list[CollectionReceipt] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Collected:
    """`results` holds the one match, all partial ones in the order asked, or nothing."""

    result: str
    results: list[CollectedResult]
    receipt: CollectReceipt
