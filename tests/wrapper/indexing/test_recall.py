"""Sets of vectors that a graph of near neighbours gets wrong: the ten nearest are found, from the first query on."""

import numpy as np
import pytest

from benchmarks.vector_sets import SETS, vector_set
from schemas.records import DocumentBatch
from schemas.settings import WrapperSettings
from schemas.where import parse_where
from tests.support.live import eventually
from wrapper.catalog import reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox, reports, samples, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.distances import exact_distances, vectors_at_once
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper
from wrapper.engine.nearest import EngineIndex
from wrapper.indexing import recall
from wrapper.indexing.recall import RecallMeasurement
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner

TOP_K = 10
FILTERS = pytest.mark.parametrize("where", [{}, {"even": True}], ids=["unfiltered", "half"])
BATCH = 1_000
DEFAULT = WrapperSettings()


@pytest.fixture(scope="module")
def engine(tmp_path_factory, processes):
    """The client of an engine of this module's own."""
    directory = tmp_path_factory.mktemp("recall")
    keeper = start_keeper(directory)
    reader = EngineStateReader(directory)
    eventually(lambda: reader.read().ready)
    client = EngineClient(reader.url)
    yield client
    client.close()
    keeper.stop()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    catalog = Catalog(SQLiteDatabase(tmp_path_factory.mktemp("recall") / "catalog.sqlite"))
    catalog.open()
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def stored(engine, catalog):
    """`stored(set, documents, dimension)`: made once, and held by catalogue and engine.

    Returns the name of the collection, the stored vectors and those to query with.
    """
    made = {}

    def store(kind, count, dimension):
        if (kind, count, dimension) not in made:
            name = f"{kind.replace(' ', '-')}-{count}"
            points, queries = vector_set(kind, count, dimension)
            catalog.commit(lambda transaction: collection_writes.create_collection(transaction, name, {}, "cosine"))
            engine_id = engine.create_collection(name, metric="cosine")
            for start in range(0, count, BATCH):
                numbers = range(start, min(start + BATCH, count))
                ids, metadatas = [f"d{n}" for n in numbers], [{"even": n % 2 == 0} for n in numbers]
                batch = DocumentBatch(ids, [""] * len(ids), metadatas, points[start : start + BATCH])
                catalog.commit(lambda transaction, batch=batch: writes.add_documents(transaction, name, batch))
                engine.upsert(engine_id, ids, batch.embeddings, batch.texts, [{} for _ in ids], all_new=True)

            def settle(transaction):
                collection = find_collection(transaction, name)
                states.set_engine_collection(transaction, collection.key, engine_id, states.READY)
                outbox.remove(transaction, [entry.id for entry in outbox.oldest(transaction, limit=1000)])

            catalog.commit(settle)
            made[kind, count, dimension] = name, points, queries
        return made[kind, count, dimension]

    return store


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


@FILTERS
@pytest.mark.parametrize("held_mb", [0, 64], ids=["nothing held", "vectors held"])
@pytest.mark.parametrize("kind", SETS)
def test_the_nearest_are_found_from_the_first_query_on(engine, catalog, stored, kind, held_mb, where):
    name, points, queries = stored(kind, 3_000, 64)
    index = EngineIndex(engine, lambda: True)
    held = HeldVectors(held_mb * 2**20) if held_mb else None
    numbers, plans = _answers(Planner(catalog, index, held=held, exact_ms=DEFAULT.exact_ms), name, queries, where)
    assert _recall(points, queries, bool(where), numbers) == 1.0
    assert plans <= {"exact", "memory"}


@FILTERS
def test_the_index_itself_finds_the_nearest_of_vectors_with_a_common_mean(engine, catalog, stored, where):
    name, points, queries = stored("common mean", 12_000, 384)
    numbers, plans = _answers(Planner(catalog, EngineIndex(engine, lambda: True)), name, queries, where)
    assert _recall(points, queries, bool(where), numbers) >= 0.99
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
    return RecallMeasurement(catalog, engine, collection, sampled, enough=0.99)


def _measured(engine, catalog, name, chosen=None):
    measurement = _begun(engine, catalog, name, chosen)
    while measurement.step():
        pass
    return measurement


@FILTERS
def test_an_index_that_was_found_to_miss_neighbours_is_not_asked(engine, catalog, stored, where):
    """Nine of ten vectors are equal: no parameters of the graph help."""
    name, points, queries = stored("many equal", 3_000, 64)
    measurement = _measured(engine, catalog, name)
    collection, found = measurement.collection, measurement.result
    catalog.commit(
        lambda transaction: reports.write(
            transaction,
            collection.key,
            recall_at_10=found.unfiltered,
            filtered_recall_at_10=found.filtered,
        )
    )
    assert found.lowest < 0.99
    # So short that an index that was never measured would be asked for a collection of this size.
    planner = Planner(catalog, EngineIndex(engine, lambda: True), exact_ms=0.0)
    numbers, plans = _answers(planner, name, queries, where)
    assert (_recall(points, queries, bool(where), numbers), plans) == (1.0, {"exact"})


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


def test_an_index_that_misses_what_is_near_to_the_farthest_alone_is_searched_more_widely(engine, catalog, stored):
    """Chance hardly ever chooses one of the four corners, and all that lies on the line is found."""
    name, points, _ = stored("line and corners", 3_000, 64)
    along = np.linspace(0, len(points) - 2, 20).astype(int)
    corners = np.linspace(len(points) // 5, len(points) - 1, 4).astype(int)
    assert not set(along) & set(corners)
    found = _measured(engine, catalog, name, along).result
    assert found.lowest >= 0.99
    assert found.candidates is not None


@pytest.mark.parametrize("kind", ["line and corners", "many equal"])
def test_a_user_gets_the_nearest_from_the_first_query_on(client, filled, kind):
    points, queries = vector_set(kind, 1_150, 16)
    name = filled([{"id": f"d{n}", "text": "", "embedding": row.tolist()} for n, row in enumerate(points)])
    numbers = []
    for each in queries:
        answer = client.post(f"/collections/{name}/query", json={"query_embedding": each.tolist(), "top_k": TOP_K})
        numbers.append([int(found["id"][1:]) for found in answer.json["results"]])
    assert _recall(points, queries, False, numbers) == 1.0
