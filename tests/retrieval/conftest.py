"""Connections to the storage of the in-process service, with an embedding model that counts letters."""

from contextlib import ExitStack, closing

import numpy as np
import pytest

from providers.base import ProviderContext
from registry.connections import Connections
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.placeholders.resolving import Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from retrieval.search.corpus import CollectionChoice, Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.semantic import SemanticOracle
from retrieval.search.reranking import Reranking
from schemas.access.callers import ANYBODY, acting_as
from schemas.connections import Connection
from schemas.records import DocumentBatch
from schemas.settings import RetrievalSettings
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.support.catalogues import one_database
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.clock import Clock
from wrapper.catalog.catalog import Catalog


class Letters(LetterEmbedding):
    """A `LetterEmbedding` that can be opened by name."""

    def __init__(self, config, context=None):
        super().__init__(config["model"], dimension=config.get("dimension", 26))


@pytest.fixture(autouse=True)
def _acting():
    """Have these tests, which ask no route, act as callers of the open service do."""
    with acting_as(ANYBODY):
        yield


@pytest.fixture(scope="module")
def connections(app):
    service = app.extensions["rag.service"]
    registry = discover(ProviderRegistry())
    registry.register(Letters)
    made = Connections(
        registry,
        StoredConnections(service.catalog),
        Placeholders({}, (), ()),
        ProviderContext(storage=service.store),
        given=[
            Connection("local", "rag", "local", {}),
            Connection("default", "embedding", "letters", {"model": "letters-1"}),
            Connection("narrow", "embedding", "letters", {"model": "letters-a-m", "dimension": 13}),
        ],
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def corpus(connections):
    return Corpus(connections)


@pytest.fixture(scope="module")
def choice_of(corpus, connections):
    """`choice_of(*own, notes=…, most=…)`: the text collections of these embeddings, `own` first."""
    return lambda *own, **options: CollectionChoice(corpus, connections, own=own, **options)


@pytest.fixture(scope="module")
def embeddings(connections):
    return QueryEmbeddings(connections, EmbeddingCache(ttl_seconds=60))


@pytest.fixture(scope="module")
def reranking(connections):
    with closing(Reranking(connections)) as made:
        yield made


@pytest.fixture(scope="module")
def open_engine(embeddings, reranking):
    """`open_engine(oracles, choice, **settings)`: a search engine over these collections."""
    usual = {"rrf_k": 60, "fetch_multiplier": 2, "fetch_min": 1, "fusion": "rrf", "retrieve_seconds": PATIENCE_SECONDS}

    usual_embed = SemanticOracle(embeddings).asked

    def open_one(oracles, choice, embed=usual_embed, **settings):
        told = RetrievalSettings(**{**usual, **settings})
        return opened.enter_context(closing(SearchEngine(oracles, choice, told, embed=embed, reranking=reranking)))

    with ExitStack() as opened:
        yield open_one


@pytest.fixture(scope="module")
def shelve(app):
    """`shelve(name, {id: text or (text, metadata)}, metric=…, letters=…, **metadata)`: a collection of these documents."""
    store = app.extensions["rag.service"].store
    usual = LetterEmbedding()
    made = []

    def add(name, documents, *, metric="cosine", letters=usual, **metadata):
        store.create_collection(name, metadata, metric)
        made.append(name)
        if documents:
            pairs = [each if isinstance(each, tuple) else (each, {}) for each in documents.values()]
            texts = [text for text, _ in pairs]
            vectors = np.asarray(letters.embed(texts), dtype="<f4")
            store.add_documents(name, DocumentBatch(list(documents), texts, [found for _, found in pairs], vectors))
        return name

    yield add
    for name in made:
        store.delete_collection(name)


@pytest.fixture(params=["sqlite"])
def catalogs(request):
    """`catalogs()`: the test's one catalogue, opened each time as by another worker. For each store, one test or two ask
    for both databases."""
    with one_database(request) as open_one:

        def open_catalog():
            catalog = Catalog(open_one())
            catalog.open()
            return catalog

        yield open_catalog


@pytest.fixture
def catalog(catalogs):
    return catalogs()


@pytest.fixture
def clock():
    """Seconds since the epoch, which pass when a test says so."""
    return Clock(1_790_000_000.0)
