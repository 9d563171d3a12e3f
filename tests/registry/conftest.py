"""A registry with two small providers, and connections to them in a database of the test's own."""

import hashlib
import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import numpy as np
import pytest

from providers.base import ProviderContext, RagProvider, SupportsSearch
from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from registry.health import HealthWatch
from registry.placeholders.resolving import Placeholders
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from registry.stored_looks import StoredLooks
from schemas.access.callers import ANYBODY, acting_as, current
from schemas.connections import CollectionInfo, Connection
from schemas.errors import CollectionNotFoundError, UnavailableError
from schemas.records import Document, Match
from schemas.scores import score
from schemas.where import EVERYTHING, Where
from tests.retrieval.conftest import Clock
from tests.support.catalogues import one_database
from tests.support.live import PATIENCE_SECONDS
from wrapper.catalog.catalog import Catalog

DIMENSION = 4


@dataclass
class World:
    """The contents of the providers of these tests, and the calls to them.

    `down` names what does not answer. `gate` holds embeddings up until it is set, except for the models in `quick`.
    """

    collections: dict[str, tuple[CollectionInfo, list[Match]]] = field(default_factory=dict)
    embedded: list[tuple[str, str]] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    filters: list[Where] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    gate: threading.Event | None = None
    quick: set[str] = field(default_factory=set)

    def add(self, name, *distances, dimension=DIMENSION, **metadata):
        """Add a collection whose nearest documents are at these distances from any question."""
        matches = [
            Match(
                Document(f"{name}-{n}", f"text {n} of {name}", f'{{"title": "Title {n}", "n": {n}}}', n),
                each,
                score(each, "cosine"),
            )
            for n, each in enumerate(distances)
        ]
        self.collections[name] = (CollectionInfo(name, len(matches), metadata, "cosine", dimension), matches)


@pytest.fixture(autouse=True)
def _acting():
    """Have these tests, which ask no route, act as callers of the open service do."""
    with acting_as(ANYBODY):
        yield


@pytest.fixture
def world():
    return World()


@pytest.fixture
def registry(world):
    class Words(EmbeddingProvider):
        id, display_name = "words", "Words"

        @classmethod
        def connection_schema(cls):
            properties = {
                "model": {"type": "string", "default": "words-1"},
                "api_key": {"type": "string", "writeOnly": True, "minLength": 1},
            }
            return {"type": "object", "properties": properties, "additionalProperties": False}

        def _embed(self, texts):
            return self._embed_by(self.model, texts)

        def _embed_by(self, model, texts):
            if world.gate is not None and model not in world.quick:
                assert world.gate.wait(PATIENCE_SECONDS)
            world.embedded += [(model, text) for text in texts]
            if model in world.down:
                raise UnavailableError("The embedding service does not answer")
            seeds = [int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") for text in texts]
            return np.stack([np.random.default_rng(seed).normal(size=DIMENSION) for seed in seeds]).astype(np.float32)

    class Shelf(RagProvider, SupportsSearch):
        id, display_name = "shelf", "Shelf"

        @classmethod
        def connection_schema(cls):
            thresholds = {name: {"type": "number"} for name in ("match_threshold", "partial_threshold")}
            return {"type": "object", "properties": thresholds, "additionalProperties": False}

        def check(self):
            return {"collections_count": len(world.collections)}

        def collections(self):
            return [info for info, _ in world.collections.values()]

        def search(self, collection, embedding, *, top_k=3, where=EVERYTHING):
            world.searched.append(collection)
            world.filters.append(where)
            world.callers.append(current().id)
            if collection in world.down:
                raise UnavailableError("The shelf is on fire")
            if collection not in world.collections:
                raise CollectionNotFoundError(collection)
            return world.collections[collection][1][:top_k]

    registry = ProviderRegistry()
    registry.register(Words)
    registry.register(Shelf)
    return registry


@pytest.fixture
def database(request):
    with one_database(request) as open_one, closing(Catalog(open_one())) as catalog:
        catalog.open()
        yield catalog


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(connections, looks):
    """`watch(…)`: a watch over the health of the connections, which ends with the test."""
    usual = {"limit_seconds": PATIENCE_SECONDS, "fresh_seconds": 0}
    with ExitStack() as opened:
        yield lambda **how: opened.enter_context(closing(HealthWatch(connections, looks, **usual | how)))


@pytest.fixture
def looks(database):
    return StoredLooks(database)


@pytest.fixture
def open_connections(registry, database):
    """`open_connections(…)`: the stored connections as another worker has them, until the test ends."""
    with ExitStack() as opened:

        def start(placeholders=None, given=(), *, registry=registry, database=database, context=None, **options):
            placeholders, context = placeholders or Placeholders({}, (), ()), context or ProviderContext()
            made = Connections(registry, StoredConnections(database), placeholders, context, given, **options)
            return opened.enter_context(closing(made))

        yield start


@pytest.fixture
def connections(open_connections):
    given = [
        Connection("local", "rag", "shelf", {}, origin="built-in"),
        Connection("default", "embedding", "words", {}, origin="built-in"),
    ]
    return open_connections(Placeholders({"WORDS_API_KEY": "sk-planted"}, ("*_API_KEY",), ()), given)
