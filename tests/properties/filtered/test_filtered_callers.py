"""A caller with a filter is answered as a service would that holds the matching documents alone.

After each of some random writes, one store is asked with a filter and another, which holds only what the model says
matches, without one. The answers are equal to the last digit, BM25 scores too; only the revision may differ.
"""

from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument, matches
from schemas.access.callers import ANYBODY, Caller, Kind, Scope, acting_as
from schemas.errors import DocumentNotFoundError
from schemas.records import DocumentBatch, DocumentPatch
from schemas.where import parse_where
from tests.properties.filtered.reads import IDS, SENTENCES, admin_export, asked, reads
from tests.properties.strategies import COMMON, FILTERS, METADATA, SHARED_METADATA, embedding, to_batch, to_collection
from tests.wrapper.documents import NoIndex
from wrapper.catalog import document_changes, writes
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.words.merging import WordMerging
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner
from wrapper.scoped_store import ScopedStore
from wrapper.store import Store

pytestmark = pytest.mark.slow

PLANS = {
    "exact": CostModel(index_base=1e12),
    "memory": CostModel(memory_base=-1e12),
    "index": CostModel(exact_per_document=1e9),
    "scan": CostModel(exact_per_document=1e9),
}
METRICS = st.sampled_from(("cosine", "l2", "ip"))
BODIES = st.lists(st.sampled_from(SENTENCES), max_size=2).map(" ".join)


def shared(seed, least, most):
    """Return some documents (id, text, metadata, seed of the vector) that share values, by chance."""
    chance = Random(seed)
    return [
        (
            f"d{number}",
            " ".join(chance.sample(SENTENCES, chance.randint(0, 2))),
            {
                name: chance.choice(values)
                for name, values in {
                    "team": ("red", "blue"),
                    "document": ("x", "y"),
                    "a": (0, 1, 1.0, True, ["a", 1]),
                    "b": ("b", 2),
                    "section": ("heading words", "front desk"),
                    "tags": (["tagged"], ["keys", "tagged"], []),
                    "language": ("de", "de", "en", "fr", None),
                }.items()
                if chance.random() < 0.8
            },
            chance.randrange(2**16),
        )
        for number in chance.sample(range(16), chance.randint(least, most))
    ]


AWKWARD = st.tuples(IDS, BODIES, SHARED_METADATA | METADATA, st.integers(0, 2**16))
PATCHES = st.fixed_dictionaries(
    {}, optional={key: COMMON | st.none() for key in ("a", "b")} | {"team": st.sampled_from(("red", "blue", None))}
)
WRITES = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 2**32).map(lambda seed: shared(seed, 1, 6))),
    st.tuples(st.just("add"), st.lists(AWKWARD, min_size=1, max_size=4, unique_by=lambda each: each[0])),
    st.tuples(st.just("patch"), st.tuples(IDS, PATCHES, st.none() | BODIES)),
    st.tuples(st.just("delete"), st.lists(IDS, max_size=4)),
    st.tuples(st.just("clear"), FILTERS),
    st.tuples(st.just("merge"), st.none()),
    st.tuples(st.just("index"), st.none()),
)
# Filters that some of the documents match.
SEEN = st.one_of(
    st.sampled_from(
        (
            {"team": "red"},
            {"team": {"$ne": "blue"}},
            {"$or": [{"team": "blue"}, {"b": 2}]},
            {"team": "red", "document": {"$exists": True}},
            {"tags": {"$contains": "keys"}},
            {"a": 1},
            {"a": {"$exists": False}},
        )
    ),
    FILTERS.filter(lambda where: parse_where(where) != parse_where({})),
)


class SomeIndex:
    """An index over the documents of collections as they were when it was last told of them, by their engine ids."""

    def __init__(self):
        self.known = {}

    def is_ready(self):
        return True

    def nearest(self, engine_id, vector, n_results):
        if len(vector) != 4:
            return []
        return [found for found, _ in self.known[engine_id].nearest(vector, n_results, {})]


class World:
    """A collection with random writes, asked with a filter; and others that hold what the filter matches."""

    def __init__(self, catalog, plan, where, metric, numbers):
        self.catalog = catalog
        self.where = where
        self.metric = metric
        self.numbers = numbers
        self.name = f"all-{next(numbers)}"
        self.index = SomeIndex()
        held = HeldVectors(1_000_000) if plan == "memory" else None
        index = NoIndex() if plan == "scan" else self.index
        documents = HeldDocuments()
        planner = Planner(catalog, index, PLANS[plan], held, documents=documents)
        self.store = ScopedStore(Store(catalog, planner, None, None, documents))
        self.merging = WordMerging(catalog, lambda: 0.0, merged_at_once=2)
        self.reader = Caller(
            "reader", "reader", Kind.KEY, frozenset({Scope.READ}), owner="key:reader", where=parse_where(where)
        )
        self._create(self.name)
        self.tell_index(self.name)

    def write(self, kind, what):
        catalog, name = self.catalog, self.name
        if kind == "add":
            batch = DocumentBatch(
                [each[0] for each in what],
                [each[1] for each in what],
                [each[2] for each in what],
                np.stack([embedding(each[3]) for each in what]),
            )
            catalog.commit(lambda transaction: writes.add_documents(transaction, name, batch))
        elif kind == "patch":
            document_id, metadata, text = what
            patch = DocumentPatch(text=text, metadata=metadata)
            try:
                catalog.commit(
                    lambda transaction: document_changes.patching(name, document_id, patch).store(transaction)
                )
            except DocumentNotFoundError:
                return
        elif kind == "delete":
            catalog.commit(lambda transaction: writes.delete_documents(transaction, name, ids=what))
        elif kind == "clear":
            where = parse_where(what)
            catalog.commit(lambda transaction: writes.delete_documents(transaction, name, where=where))
        elif kind == "merge":
            while self.merging.step():
                pass
        else:
            self.tell_index(name)

    def alone(self):
        """Make a collection that holds the matching documents alone; return its name."""
        with acting_as(ANYBODY):
            found = [each for each in admin_export(self.store, self.name) if matches(self.where, each.metadata)]
        name = f"alone-{next(self.numbers)}"
        self._create(name)
        if found:
            self.catalog.commit(lambda transaction: writes.add_documents(transaction, name, to_batch(found)))
        self.tell_index(name)
        return name

    def tell_index(self, name):
        with acting_as(ANYBODY):
            documents = [
                ModelDocument(each.id, "", {}, np.asarray(each.embedding)) for each in admin_export(self.store, name)
            ]

        def settle(transaction):
            collection = find_collection(transaction, name)
            states.set_engine_collection(transaction, collection.key, name, states.READY)
            mine = outbox.of_collection(transaction, collection.key, limit=1000)
            outbox.remove(transaction, [entry.id for entry in mine])

        self.catalog.commit(settle)
        self.index.known[name] = to_collection(documents, self.metric)

    def _create(self, name):
        self.catalog.commit(lambda transaction: collection_writes.create_collection(transaction, name, {}, self.metric))


@pytest.fixture(scope="module")
def numbers():
    return count()


@settings(max_examples=settings.default.max_examples)
@given(st.data(), st.sampled_from(sorted(PLANS)), SEEN, METRICS, st.lists(WRITES, min_size=1, max_size=4))
def test_a_filtered_caller_sees_what_a_service_with_the_matching_documents_shows(
    catalog, numbers, data, plan, where, metric, planned
):
    world = World(catalog, plan, where, metric, numbers)
    first = shared(data.draw(st.integers(0, 2**32)), 10, 16)
    for kind, what in [("add", first), *planned]:
        world.write(kind, what)
        alone = world.alone()
        for read in data.draw(st.lists(reads(), min_size=4, max_size=10)):
            note(f"after {kind}: {read[0]}")
            with acting_as(world.reader):
                filtered = asked(read, world.store, world.name)
            with acting_as(ANYBODY):
                assert filtered == asked(read, world.store, alone)
