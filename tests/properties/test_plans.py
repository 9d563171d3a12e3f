"""Every plan of a vector query answers as the model does: over a fake index with many examples, over Chroma and HTTP
with one."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument
from schemas.errors import UnavailableError
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING, parse_where
from tests.properties.strategies import FILTERS, documents, embedding, to_collection
from tests.support.live import eventually
from tests.wrapper.documents import settle
from wrapper.catalog import writes
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import find_collection
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner

METRICS = st.sampled_from(("cosine", "l2", "ip"))
INDEX_IS_CHEAP = CostModel(exact_per_document=1e9)
COSTS = {"exact": CostModel(index_base=1e12), "memory": CostModel(memory_base=-1e12)}
PLANS = ("index", "index+filter", "exact", "scan", "memory")


class ListIndex:
    """An index over given documents, in place of the engine's."""

    def __init__(self, model, *, ready=True):
        self.ready = ready
        self.model = model

    def is_ready(self):
        return self.ready

    def nearest(self, engine_id, embedding, n_results):
        if not self.ready:
            raise UnavailableError("away")
        return [document_id for document_id, _ in self.model.nearest(embedding, n_results, {})]


def _settle(catalog, name):
    """Mark everything as applied to the index."""
    catalog.commit(lambda transaction: settle(transaction, name))


def _planner(catalog, model, plan):
    costs = COSTS.get(plan, INDEX_IS_CHEAP)
    held = HeldVectors(1_000_000) if plan == "memory" else None
    return Planner(catalog, ListIndex(model, ready=plan != "scan"), costs, held)


def _check(found, expected, plan, where):
    possible = {plan, "empty"} if plan in ("index", "memory") else {plan, "exact", "empty"}
    if plan in ("index+filter", "exact") and parse_where(where) == EVERYTHING:
        possible = {"index", "empty"}
    assert found.plan in possible
    assert [match.document.id for match in found.matches] == [each for each, _ in expected]
    assert [match.distance for match in found.matches] == pytest.approx(
        [far for _, far in expected], rel=1e-11, abs=1e-12
    )


@pytest.mark.parametrize("plan", PLANS)
@given(documents(most=14), FILTERS, METRICS, st.integers(1, 6), st.integers(0, 2**16))
def test_every_plan_finds_what_the_model_finds(catalog, stored, plan, found, where, metric, top_k, seed):
    model, name = to_collection(found, metric), stored(found, metric)
    _settle(catalog, name)
    where = {} if plan == "index" else where
    query = embedding(seed)
    answer = _planner(catalog, model, plan).query(name, query, top_k=top_k, where=parse_where(where))
    _check(answer, model.nearest(query, top_k, where), plan, where)


@pytest.mark.parametrize("plan", ["exact", "scan", "memory"])
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), METRICS, st.integers(1, 5))
def test_equal_distances_are_answered_in_order_of_insertion(catalog, stored, plan, kinds, metric, top_k):
    vectors = [embedding(kind, 48) for kind in range(3)]
    found = [ModelDocument(f"d{n}", "", {"a": 1}, vectors[kind]) for n, kind in enumerate(kinds)]
    model, name = to_collection(found, metric), stored(found, metric)
    _settle(catalog, name)
    query = embedding(7, 48)
    answer = _planner(catalog, model, plan).query(name, query, top_k=top_k, where=parse_where({"a": 1}))
    # The model adds up in another order, so documents of one kind may differ from the other kinds by a rounding only.
    assert [match.document.id for match in answer.matches] == [each for each, _ in model.nearest(query, top_k, {})]


@given(st.integers(0, 2**16), st.lists(st.integers(0, 29), max_size=12), st.integers(1, 4), FILTERS | st.just({}))
def test_documents_waiting_for_the_index_are_ranked_by_their_new_vectors(catalog, stored, seed, moved, top_k, where):
    """The index still knows the old vectors of the documents that were just replaced."""
    old = [ModelDocument(f"d{n}", "", {"a": n % 3}, embedding(seed + n)) for n in range(30)]
    new = [
        ModelDocument(each.id, "", {"a": 1}, embedding(seed + 1000 + n)) if n in moved else each
        for n, each in enumerate(old)
    ]
    name = stored(new)
    _settle(catalog, name)
    upserts = [(f"d{n}", []) for n in sorted(set(moved))]
    if upserts:
        catalog.commit(
            lambda transaction: outbox.append(
                transaction,
                find_collection(transaction, name).key,
                outbox.DOCUMENTS,
                {"upsert": upserts, "delete": ["gone"]},
            )
        )
    query = embedding(seed + 5000)
    planner = Planner(catalog, ListIndex(to_collection(old)), INDEX_IS_CHEAP)
    answer = planner.query(name, query, top_k=top_k, where=parse_where(where))
    expected = to_collection(new).nearest(query, top_k, where)
    assert [match.document.id for match in answer.matches] == [each for each, _ in expected]


class WrittenMeanwhile(ListIndex):
    """An index that answers from its present state and then lets the next of `writes` happen."""

    def __init__(self, model, writes):
        super().__init__(model)
        self.writes = list(writes)

    def nearest(self, engine_id, embedding, n_results):
        found = super().nearest(engine_id, embedding, n_results)
        if self.writes:
            self.writes.pop(0)()
        return found


PLACES = st.lists(st.integers(0, 34), min_size=1, max_size=6, unique=True)
WRITES = st.lists(st.tuples(PLACES, st.booleans(), st.booleans()), max_size=4)


@given(st.integers(0, 2**16), WRITES, st.integers(1, 5), FILTERS | st.just({}))
def test_an_answer_is_that_of_its_revision_whatever_is_written_meanwhile(catalog, stored, seed, planned, top_k, where):
    """Documents are replaced, added and deleted during the index query, whether the index learns of it or not."""
    now = {f"d{n}": ModelDocument(f"d{n}", "", {"a": n % 3}, embedding(seed + n)) for n in range(30)}
    name = stored(list(now.values()))
    _settle(catalog, name)
    with catalog.read() as transaction:
        known = {find_collection(transaction, name).revision: to_collection(list(now.values()))}

    def write(number, places, deletes, is_indexed):
        ids = [f"d{place}" for place in places]
        if deletes:
            outcome = catalog.commit(lambda transaction: writes.delete_documents(transaction, name, ids=ids))
            for each in ids:
                now.pop(each, None)
        else:
            vectors = np.stack([embedding(seed + 100 * number + place) for place in places])
            metadatas = [{"a": number % 3} for _ in ids]
            batch = DocumentBatch(ids, [""] * len(ids), metadatas, vectors)
            outcome = catalog.commit(lambda transaction: writes.add_documents(transaction, name, batch))
            found = zip(ids, metadatas, vectors, strict=True)
            now.update({each: ModelDocument(each, "", metadata, vector) for each, metadata, vector in found})
        known[outcome.revision] = to_collection(list(now.values()))
        if is_indexed:
            index.model = known[outcome.revision]
            _settle(catalog, name)

    planned = [lambda number=number, each=each: write(number, *each) for number, each in enumerate(planned, start=1)]
    index = WrittenMeanwhile(to_collection(list(now.values())), planned)
    query = embedding(seed + 5000)
    for _ in range(2):
        answer = Planner(catalog, index, INDEX_IS_CHEAP).query(name, query, top_k=top_k, where=parse_where(where))
        expected = known[answer.collection.revision].nearest(query, top_k, where)
        assert [match.document.id for match in answer.matches] == [each for each, _ in expected]


@pytest.mark.parametrize("plan", ["exact", "memory"])
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_an_answer_does_not_depend_on_its_neighbours(catalog, stored, metric, plan):
    found = [ModelDocument(f"d{n}", "", {"a": n}, embedding(n, 64)) for n in range(50)]
    name, query = stored(found, metric), embedding(99, 64)
    _settle(catalog, name)
    planner = _planner(catalog, to_collection(found, metric), plan)
    whole = {match.document.id: match.distance for match in planner.query(name, query, top_k=50).matches}
    for number in range(50):
        [match] = planner.query(name, query, top_k=50, where=parse_where({"a": number})).matches
        assert match.distance == whole[match.document.id]


@contextmanager
def _forced(app, plan):
    """Make the service's own planner prefer a plan."""
    planner = app.extensions["rag.service"].store.query.__self__
    costs, index, held = planner._costs, planner._index, planner._held
    planner._costs = COSTS.get(plan, INDEX_IS_CHEAP)
    if plan != "memory":
        planner._held = None
    if plan == "scan":
        planner._index = ListIndex(None, ready=False)
    try:
        yield
    finally:
        planner._costs, planner._index, planner._held = costs, index, held


def test_the_service_answers_alike_by_every_route_and_plan(app, client, filled):
    found = [ModelDocument(f"d{n}", f"text {n}", {"a": n % 2}, embedding(n)) for n in range(60)]
    wire = [
        {"id": each.id, "text": each.text, "metadata": each.metadata, "embedding": each.embedding.tolist()}
        for each in found
    ]
    name, model, query = filled(wire), to_collection(found), embedding(5)
    eventually(lambda: app.extensions["rag.service"].store.collection(name).index_state == "ready")
    for plan in PLANS:
        where = {} if plan == "index" else {"a": 1}
        expected = [each.id for each in model.matching(where)]
        listed = client.get(f"/collections/{name}/documents", query_string={"where": app.json.dumps(where)})
        searched = client.post(f"/collections/{name}/documents/search", json={"where": where})
        for answer in (listed, searched):
            assert [each["id"] for each in answer.json["documents"]] == expected
            assert answer.json["total"] == answer.json["count"] == len(expected)
        counted = client.get(f"/collections/{name}/documents/count", query_string={"where": app.json.dumps(where)})
        assert counted.json["count"] == len(expected)
        with _forced(app, plan):
            asked = {"query_embedding": query.tolist(), "top_k": 5, "where": where}
            answer = client.post(f"/collections/{name}/query", json=asked).json
        nearest = model.nearest(query, 5, where)
        assert answer["plan"] == plan
        assert [each["id"] for each in answer["results"]] == [each for each, _ in nearest]
        assert [each["distance"] for each in answer["results"]] == pytest.approx([far for _, far in nearest])
        by_id = {each.id: each for each in found}
        for each in answer["results"]:
            assert (each["text"], each["metadata"]) == (by_id[each["id"]].text, by_id[each["id"]].metadata)
    client.delete(f"/collections/{name}")
