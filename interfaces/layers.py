"""The objects above the storage proxy that routes and tools of one process call."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import structlog

from interfaces import model_metrics
from interfaces.context_tools import context_tools
from interfaces.given_connections import built_in_connections, declared_connections, operators_placeholders
from interfaces.job_parts import open_jobs
from interfaces.model_checks import own_calibrations
from providers.base import ProviderContext
from providers.chat.base import ChatProvider
from providers.outbound.network import Network
from registry.candidates import Candidates
from registry.collector import Collector, Thresholds
from registry.connections import Connections
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.embedding.shared_files import VectorFiles
from registry.health import HealthWatch
from registry.placeholders.resolving import SERVICE_KEYS, Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_call_sizes import StoredCallSizes
from registry.stored_connections import StoredConnections
from registry.stored_looks import StoredLooks
from registry.topics.conversations import Conversations
from registry.topics.topic import TopicByChat, TopicByRule
from registry.typed_secrets.rotation import typed_secrets_of
from registry.typed_secrets.sealing import Seal
from retrieval.bench.benches import BenchRunner, StoredBenches
from retrieval.bench.judgements import Judgements
from retrieval.chat.answering import Chat, ChatPassages
from retrieval.chat.history import ChatHistory
from retrieval.context.layer import ContextLayer
from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.documents.text_document_store import RagStore
from retrieval.erasing.erasure import Erasure
from retrieval.erasing.pending import PendingErasures
from retrieval.jobs.uploads import KnownFiles
from retrieval.kept_files.kept_files import KeptFiles
from retrieval.kept_files.store_facts import VectorStoreFacts
from retrieval.reembedding import Reembedder
from retrieval.rules.pipeline import RAGPipeline
from retrieval.search.answer_cache import AnswerCache
from retrieval.search.corpus import CollectionChoice, Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import PersonaOracle, SemanticOracle, seen_notes
from retrieval.search.reranking import Reranking
from retrieval.sessions.notes import Notes
from retrieval.sessions.project_context import ContextWriter
from retrieval.text_collections import TextCollections
from retrieval.warm_up import WarmUp
from retrieval.watching.stored_reports import Watchers
from schemas.access.callers import as_service
from schemas.connections import HEALTHY, UNHEALTHY, Connection
from schemas.errors import ConfigurationError, UnavailableError
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings
from schemas.shared_database import Place
from schemas.storage.health import ENGINE_READY
from wrapper.access.authentication import Authentication
from wrapper.access.daily_use import DailyUse
from wrapper.secret_key import KEY_FILE, secret_keys
from wrapper.service import Service

log = structlog.get_logger(__name__)

FRESH_SECONDS = 2.0
"""The number of seconds for which a health report is reused."""
ERASURE_LOCK, ERASURES_UNDER_WAY = "erasure.lock", "erasures-under-way"


class Layers:
    """The layers of one process, built once and closed with the service.

    Raises ConfigurationError when a declared connection cannot be used.
    """

    def __init__(
        self,
        service: Service,
        authentication: Authentication,
        network: Network,
        settings: RegistrySettings,
        retrieval: RetrievalSettings,
        access: AccessSettings,
    ) -> None:
        catalog, data_dir = service.catalog, service.settings.data_dir
        self.settings = settings
        self.registry = discover(ProviderRegistry())
        self.connections = _connections(self.registry, service, network, settings, access)
        self.candidates = Candidates(self.connections, test_seconds=settings.connect_test_seconds)
        self.health = HealthWatch(
            self.connections,
            StoredLooks(catalog),
            limit_seconds=settings.health_seconds,
            fresh_seconds=FRESH_SECONDS,
        )
        ttl_seconds = settings.embedding_cache_seconds
        question_vectors = VectorFiles(data_dir / "query-embeddings", ttl_seconds=ttl_seconds)
        cache = EmbeddingCache(question_vectors, ttl_seconds=ttl_seconds, told=model_metrics.count_question)
        metered = model_metrics.EmbeddingMeter(DailyUse(catalog))
        self.embeddings = QueryEmbeddings(self.connections, cache, metered)
        self.collector = Collector(
            self.connections,
            self.embeddings,
            thresholds=Thresholds(settings.match_threshold, settings.partial_threshold),
            limit_seconds=settings.collect_seconds,
            log_queries=retrieval.log_queries,
        )
        self.conversations = self._conversations(service)
        self.corpus = Corpus(self.connections)
        self.choice = CollectionChoice(
            self.corpus,
            self.connections,
            own=retrieval.own_collections,
            notes=retrieval.notes_collection,
            most=retrieval.search_collections,
        )
        self.warm_up = WarmUp(data_dir / "embeds-texts")
        texts = TextCollections(
            self.connections,
            self.choice,
            about_to_embed=self.warm_up.needed,
            min_relevance=retrieval.min_relevance,
            metered=metered,
        )
        self.warm_up.begin(
            as_service(lambda: any(each.count for each in texts.searched().asked)),
            as_service(lambda: texts.embedding().warm_up()),
        )
        answers = AnswerCache(catalog, ttl_seconds=retrieval.cache_ttl_seconds)
        self.reranking = Reranking(self.connections, metered=metered)
        self.search = search_engine(
            *(self.embeddings, self.choice, self.reranking, retrieval, answers), about_to_embed=self.warm_up.needed
        )
        originals = Originals(data_dir / "originals", keeps=retrieval.keep_originals)
        self.documents = StoredDocuments(texts, originals)
        self.rag_store = RagStore(texts, self.search, self.documents, retrieval)
        self.pipeline = RAGPipeline(texts, self.search, retrieval)
        # Of an upload, whose body has other parts, too.
        max_file_mb = min(retrieval.upload_file_mb, max(1, service.settings.max_body_mb - 1))
        self.known_files = KnownFiles(texts, retrieval, max_file_bytes=max_file_mb << 20)
        history = ChatHistory(catalog)
        self.kept_files = KeptFiles(
            catalog,
            data_dir,
            max_file_bytes=retrieval.upload_file_mb << 20,
            max_owner_bytes=retrieval.files_mb << 20,
        )
        self.store_facts = VectorStoreFacts(catalog)

        def tidy() -> None:
            self.jobs.forget_ended(retrieval.jobs_days)
            self.documents.sweep_originals()
            self.kept_files.sweep()
            self.store_facts.sweep({each.id for each in service.callers_store.collections()})
            history.forget_older(retrieval.chat_days)

        self.jobs, self.uploads, self.job_runner, background = open_jobs(
            service, authentication, texts, originals, retrieval, tidy
        )
        self.reembedder = Reembedder(service.store.reembeddings, self.connections, self.embeddings, background)
        passages = ChatPassages(self.search, retrieval)
        self.chat = Chat(
            self.connections,
            passages,
            history,
            says_so=retrieval.chat_says_so,
            shows_thoughts=retrieval.chat_show_thoughts,
        )
        service.callers_store.reach.keep_apart(retrieval.notes_collection, lambda caller: seen_notes(caller.asker))
        self.notes = Notes(texts, catalog, retrieval.notes_collection)
        self.project_context = ContextWriter(self.search, self.choice, self.notes, retrieval)
        self.context = ContextLayer(
            texts,
            self.search,
            catalog,
            retrieval,
            vector_store=lambda: _check_storage(service),
            models=lambda: {
                name: partial(self._check_model, model) for name, model in self.connections.of_service().items()
            },
        )
        self.tools = context_tools(self.context, retrieval)
        """The context tools by name, in the order in which they are listed."""
        self.watchers = Watchers(catalog)
        judgements, benches = Judgements(catalog), StoredBenches(catalog)
        self.quality = BenchRunner(self.search, judgements, benches, self.documents, retrieval.fusion)
        self.erasure = Erasure(
            service.erasure(),
            PendingErasures(data_dir / ERASURES_UNDER_WAY),
            [
                *catalog.places,  # those of all parts that were opened until here
                Place(
                    *("originals", "removed", originals.erase),
                    holders=lambda _, files: as_service(self.documents.holders)(files),
                ),
                Place("jobs and uploads", "removed", self.uploads.erase, holders=self.uploads.holders),
                Place("embeddings of questions", "all removed", lambda _: question_vectors.clear()),
            ],
            named=self.uploads.named,
            lock_file=data_dir / ERASURE_LOCK,
        )

    def start(self) -> None:
        """Begin with the work that nobody waits for."""
        self.job_runner.start()
        self.reembedder.start()

    def close(self) -> None:
        self.quality.close()
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

    def _conversations(self, service: Service) -> Conversations | None:
        """Return the store of conversations, None when clients keep their topics themselves."""

        def by_model() -> TopicByChat:
            return TopicByChat(cast(ChatProvider, self.connections.open_chat()[1]))

        # Opened in any case, so that erasures find the topics of earlier starts.
        kept = Conversations(service.catalog, by_model if self.settings.topic == "chat" else TopicByRule)
        return None if self.settings.topic == "off" else kept

    def _check_model(self, connection: Connection) -> None:
        """Raise UnavailableError when the service of a model is not well."""
        report = self.health.of(connection)
        if report.status == UNHEALTHY:
            raise UnavailableError(report.message)


def _connections(
    registry: ProviderRegistry,
    service: Service,
    network: Network,
    settings: RegistrySettings,
    access: AccessSettings,
) -> Connections:
    data_dir = service.settings.data_dir
    own_paths = (access.api_key_file, service.settings.tls_key, service.settings.backup_key_file)
    own_files = [data_dir / KEY_FILE, *map(Path, filter(None, own_paths))]
    placeholders = operators_placeholders(settings, own_files)
    warn_of_free_secrets(settings, placeholders)
    context = ProviderContext(
        network=network,
        storage=service.callers_store,
        service_id=service.id,
        call_sizes=StoredCallSizes(service.catalog),
        data_dir=data_dir,
        calibrations=own_calibrations(settings),
    )
    seal, stored = Seal(secret_keys(data_dir, access)), StoredConnections(service.catalog)
    warn_of_other_keys(stored, seal)
    return Connections(
        registry,
        stored,
        placeholders,
        context,
        given=[*built_in_connections(settings), *declared_connections(registry, placeholders)],
        own_placeholders=Placeholders(os.environ, SERVICE_KEYS, (), own=frozenset()),
        seal=seal,
    )


def warn_of_free_secrets(settings: RegistrySettings, placeholders: Placeholders) -> None:
    """Warn that secrets may go anywhere."""
    if not settings.secret_hosts and placeholders.available():
        log.warning(
            "whoever may define connections may send variables to any host: bind them to theirs with RAG_SECRET_HOSTS",
            variables=len(placeholders.available()),
        )


def warn_of_other_keys(stored: StoredConnections, seal: Seal) -> None:
    """Warn of stored secrets that no key opens."""
    try:
        closed = sorted({each.connection for each in typed_secrets_of(stored, seal) if not each.opens})
    except ConfigurationError as error:
        log.warning("stored secrets cannot be used", reason=error.message)
        return
    if closed:
        log.warning("stored secrets do not open with the key of this service", connections=closed)


def _check_storage(service: Service) -> None:
    """Raise UnavailableError, saying why, when searches by vector do not work as they should."""
    health = service.storage_health()
    if health.engine.status != ENGINE_READY:
        raise UnavailableError(f"The vector engine is {health.engine.status}: searches are slower meanwhile")
    if health.status != HEALTHY:
        raise UnavailableError(f"The storage is {health.status}, as GET /health tells: searches are slower meanwhile")


def search_engine(
    embeddings: QueryEmbeddings,
    choice: CollectionChoice,
    reranking: Reranking,
    settings: RetrievalSettings,
    cache: AnswerCache | None = None,
    about_to_embed: Callable[[], None] = lambda: None,
) -> SearchEngine:
    """Return the search engine of these settings, with its oracles in the order in which answers name them."""
    semantic = SemanticOracle(embeddings, about_to_embed=about_to_embed)
    oracles = (semantic, LexicalOracle(), PersonaOracle(embeddings, settings.notes_collection))
    return SearchEngine(oracles, choice, settings, embed=semantic.asked, reranking=reranking, cache=cache)
