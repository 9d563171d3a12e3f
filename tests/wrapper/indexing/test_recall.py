"""Sets of vectors that a graph of near neighbours gets wrong: the ten nearest are found, from the first query on."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.vector_sets import SETS, vector_set
from schemas.settings import WrapperSettings
from schemas.where import parse_where
from tests.properties.catalogs import open_catalog
from tests.wrapper.documents import add, create, settle
from tests.wrapper.engine.conftest import running_engine
from wrapper.catalog import reads
from wrapper.catalog.index_state import samples
from wrapper.catalog.rows import find_collection
from wrapper.distances import exact_distances, vectors_at_once
from wrapper.engine.nearest import EngineIndex
from wrapper.indexing import recall
from wrapper.indexing.farthest import Farthest
from wrapper.indexing.recall import RecallMeasurement
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner

TOP_K = 10
METRICS = ("cosine", "l2", "ip")
FILTERS = pytest.mark.parametrize("where", [{}, {"even": True}], ids=["unfiltered", "half"])
BATCH = 1_000
ENOUGH = 0.99
"""The recall that a real graph must have: which neighbours it misses is chance, as it is built by several threads."""
DEFAULT = WrapperSettings()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The client of an engine of this module's own."""
    with running_engine(tmp_path_factory.mktemp("recall")) as client:
        yield client


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    catalog = open_catalog(tmp_path_factory.mktemp("recall") / "catalog.sqlite")
    yield catalog
    catalog.close()


def _store(catalog, kind, count, dimension, engine=None):
    """Store a set in the catalogue, and in the engine if there is one. Return the name of the collection, the stored
    vectors and those to query with."""
    name = f"{kind.replace(' ', '-')}-{count}-{'in-engine' if engine else 'unknown'}"
    points, queries = vector_set(kind, count, dimension)
    create(catalog, name)
    engine_id = engine.create_collection(name, metric="cosine") if engine else "engine-id"
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        ids, vectors = [f"d{n}" for n in numbers], points[start : start + BATCH]
        add(catalog, name, ids, metadatas=[{"even": n % 2 == 0} for n in numbers], vectors=vectors)
        if engine:
            engine.upsert(engine_id, ids, vectors, [""] * len(ids), [{} for _ in ids], all_new=True)
    catalog.commit(lambda transaction: settle(transaction, name, engine_id))
    return name, points, queries


@pytest.fixture(scope="module")
def stored(engine, catalog):
    """`stored(set, documents, dimension)`: made once, and held by catalogue and engine."""
    return cache(partial(_store, catalog, engine=engine))


@pytest.fixture(scope="module")
def catalogued(catalog):
    """`catalogued(set)`: made once, and held by the catalogue, which takes the engine for complete."""
    return cache(lambda kind: _store(catalog, kind, 3_000, 64))


class NeverAsked:
    """An engine that is ready, and not to be asked."""

    def is_ready(self):
        return True

    def nearest(self, *_):
        raise AssertionError("an index was asked that had not been measured")


def _recall(points, queries, even, answers):
    """Return the recall of `answers`, document numbers by query; equally near ones are equally right."""
    points, queries = (each / np.linalg.norm(each.astype(float), axis=1, keepdims=True) for each in (points, queries))
    distances = 1.0 - queries @ points.T
    if even:
        distances[:, 1::2] = np.inf
    hits = 0
    for row, found in zip(distances, answers, strict=True):
        assert len(found) == len(set(found)) == TOP_K
        hits += np.count_nonzero(row[found] <= np.partition(row, TOP_K - 1)[TOP_K - 1] + 1e-9)
    return hits / (TOP_K * len(queries))


def _answers(planner, name, queries, where):
    found = [planner.query(name, each, top_k=TOP_K, where=parse_where(where)) for each in queries]
    numbers = [[int(match.document.id[1:]) for match in each.matches] for each in found]
    return numbers, {each.plan for each in found}


@pytest.mark.slow
@FILTERS
@pytest.mark.parametrize("held_mb", [0, 64], ids=["nothing held", "vectors held"])
@pytest.mark.parametrize("kind", SETS)
def test_the_nearest_are_found_from_the_first_query_on(catalog, catalogued, kind, held_mb, where):
    name, points, queries = catalogued(kind)
    held = HeldVectors(held_mb * 2**20) if held_mb else None
    planner = Planner(catalog, NeverAsked(), held=held, exact_ms=DEFAULT.exact_ms)
    numbers, plans = _answers(planner, name, queries, where)
    assert _recall(points, queries, bool(where), numbers) == 1.0
    assert plans <= {"exact", "memory"}


@pytest.mark.slow
@FILTERS
def test_the_index_itself_finds_the_nearest_of_vectors_with_a_common_mean(engine, catalog, stored, where):
    name, points, queries = stored("common mean", 12_000, 384)
    numbers, plans = _answers(Planner(catalog, EngineIndex(engine, lambda: True)), name, queries, where)
    assert _recall(points, queries, bool(where), numbers) >= ENOUGH
    assert plans == {"index+filter" if where else "index"}


def _begun(engine, catalog, name, chosen=None):
    """Begin to measure with documents spread over the collection, or with those of the `chosen` numbers."""
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        sampled = samples.spread(transaction, collection, 20)
        if chosen is not None:
            sampled = list(
                reads.by_ids(transaction, collection, [f"d{n}" for n in chosen], with_embeddings=True).values()
            )
            assert len(sampled) == len(chosen)
    return RecallMeasurement(catalog, engine, collection, sampled, enough=ENOUGH)


def _measured(engine, catalog, name, chosen=None):
    measurement = _begun(engine, catalog, name, chosen)
    while measurement.step():
        pass
    return measurement


@pytest.mark.slow
def test_a_measurement_computes_few_distances_of_what_is_farther_than_the_nearest_so_far(
    engine, catalog, stored, monkeypatch
):
    name, _, _ = stored("common mean", 12_000, 384)
    compared = []

    def counted(query, vectors, metric):
        compared.append(len(vectors))
        return exact_distances(query, vectors, metric)

    monkeypatch.setattr("wrapper.indexing.recall.exact_distances", counted)
    measurement = _begun(engine, catalog, name)
    while not measurement._is_compared:
        assert measurement.step()
    pairs_of_a_block = (20 + recall.FAR_QUERIES) * len(recall.SHARES)
    blocks = 12_000 // vectors_at_once(384)
    assert len(compared) < blocks * pairs_of_a_block / 2  # without it, all pairs of all blocks


@pytest.mark.slow
def test_an_index_that_misses_what_is_near_to_the_farthest_alone_is_searched_more_widely(engine, catalog, stored):
    """Chance hardly ever chooses one of the four corners, and all that lies on the line is found."""
    name, points, _ = stored("line and corners", 3_000, 64)
    along = np.linspace(0, len(points) - 2, 20).astype(int)
    corners = np.linspace(len(points) // 5, len(points) - 1, 4).astype(int)
    assert not set(along) & set(corners)
    found = _measured(engine, catalog, name, along).result
    assert found.lowest >= ENOUGH
    assert found.candidates is not None


AXES = np.eye(8, dtype=np.float32)


def _chosen(known, vectors, sizes, metric, number):
    """Return what is chosen of vectors that come in parts of these sizes, again and again."""
    farthest, start, turn = Farthest(known, metric, number), 0, 0
    while start < len(vectors):
        farthest.see(vectors[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    return farthest.vectors


@given(
    places=st.sets(st.integers(0, 199), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    metric=st.sampled_from(METRICS),
)
def test_the_few_that_lie_apart_are_among_the_chosen_wherever_they_stand(places, sizes, metric):
    vectors = AXES[0] + np.linspace(-0.5, 0.5, 200, dtype=np.float32)[:, np.newaxis] * AXES[1]
    known = vectors[::10].copy()
    corners = AXES[2 : 2 + len(places)]
    vectors[sorted(places)] = corners
    found = _chosen(known, vectors, sizes, metric, number=10)
    assert len(found) == 10
    for corner in corners:
        assert (found == corner).all(axis=1).any()


@given(
    components=st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2), min_size=1, max_size=9),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    metric=st.sampled_from(METRICS),
    number=st.integers(1, 4),
)
def test_each_of_the_chosen_is_another_one_of_those_that_were_seen(components, sizes, metric, number):
    """Whatever they are: without a direction, beyond what float32 can square, or infinite."""
    vectors = np.array(components, dtype=np.float32)
    found = _chosen(vectors[:1], vectors, sizes, metric, number)
    assert len(found) == min(number, len(vectors))
    left = vectors.tolist()
    for each in found.tolist():
        left.remove(each)


def test_nothing_is_chosen_of_nothing():
    for metric in METRICS:
        farthest = Farthest(AXES[:2], metric, number=3)
        farthest.see(AXES[:0])
        assert farthest.vectors.shape == (0, 8), metric
