"""The objects above the storage proxy that routes and tools of one process call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interfaces.erasing_parts import Erasing
from interfaces.job_parts import KeptParts
from interfaces.tool import Tool
from registry.candidates import Candidates
from registry.collector import Collector
from registry.connections import Connections
from registry.embedding.queries import QueryEmbeddings
from registry.health import HealthWatch
from registry.provider_registry import ProviderRegistry
from registry.topics.conversations import Conversations
from retrieval.bench.measuring import QualityParts
from retrieval.chat.answering import Chat
from retrieval.context.layer import ContextLayer
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.documents.text_document_store import RagStore
from retrieval.jobs.known_files import KnownFiles
from retrieval.jobs.runner import JobRunner
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.jobs.uploads import Uploads
from retrieval.reembedding import Reembedder
from retrieval.rules.pipeline import RAGPipeline
from retrieval.search.choosing import CollectionChoice
from retrieval.search.corpus import Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.reranking import Reranking
from retrieval.sessions.notes import Notes
from retrieval.sessions.project_context import ContextWriter
from retrieval.warm_up import WarmUp
from retrieval.watching.stored_reports import Watchers
from schemas.settings import RegistrySettings


@dataclass(kw_only=True)
class Layers:
    """The layers of one process, built once by the composition root and closed with the service."""

    registry: ProviderRegistry
    connections: Connections
    candidates: Candidates
    health: HealthWatch
    collector: Collector
    conversations: Conversations | None
    embeddings: QueryEmbeddings
    corpus: Corpus
    choice: CollectionChoice
    search: SearchEngine
    reranking: Reranking
    pipeline: RAGPipeline
    rag_store: RagStore
    documents: StoredDocuments
    known_files: KnownFiles
    jobs: StoredJobs
    uploads: Uploads
    job_runner: JobRunner
    reembedder: Reembedder
    kept: KeptParts
    chat: Chat
    notes: Notes
    project_context: ContextWriter
    context: ContextLayer
    tools: Mapping[str, Tool[Any]]
    """The context tools by name, in the order in which they are listed."""
    watchers: Watchers
    erasure: Erasing
    quality: QualityParts
    warm_up: WarmUp
    settings: RegistrySettings

    def start(self) -> None:
        """Begin with the work that nobody waits for."""
        self.job_runner.start()
        self.reembedder.start()

    def close(self) -> None:
        self.quality.runner.close()
        self.reembedder.stop()
        self.job_runner.stop()
        self.warm_up.close()
        self.context.close()
        self.search.close()
        self.reranking.close()
        self.collector.close()
        self.embeddings.close()
        self.health.close()
        self.connections.close()
