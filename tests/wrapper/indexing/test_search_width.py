"""How widely an index is searched: as widely as the recall that is promised requires, and not asked where no width is
enough."""

import itertools

import numpy as np
import pytest

from benchmarks.vector_sets import vector_set
from schemas.where import parse_where
from tests.properties.processes import Process
from tests.support.worlds import OPTIONS, World
from tests.wrapper.documents import batch, numbered
from tests.wrapper.engine.conftest import running_engine
from wrapper.catalog.index_state import reports, samples
from wrapper.catalog.rows import find_collection
from wrapper.engine.client import HNSW, SEARCH_WIDTHS
from wrapper.indexing.checkups import EVERY_SECONDS, RECALL_EVERY_SECONDS, RESTS_A_MEASUREMENT
from wrapper.indexing.recall import RecallMeasurement
from wrapper.querying.asked_vectors import AskedVectors
from wrapper.querying.costs import CostModel
from wrapper.querying.planner import Planner

INDEX_IS_CHEAP = CostModel(index_base=0.0, index_per_candidate=0.0)
COUNT, TOP_K = 2_000, 10
ENOUGH = 0.99
"""The recall that is demanded of an index; which width a real graph needs for it is chance."""
CONFIGURATION = '{"hnsw":{"ef_search":10},"embedding_function":null}'


@pytest.fixture
def narrow(tmp_path):
    """The client of an engine of its own, whose new indexes are searched so narrowly that they miss a lot."""
    (tmp_path / "engine").mkdir()
    with running_engine(tmp_path / "engine", hnsw={**HNSW, "ef_search": 10}) as client:
        yield client


def _fill(process, points):
    process.store.create_collection("docs", {}, "cosine", OPTIONS, configuration=CONFIGURATION)
    metadatas = [{"even": n % 2 == 0} for n in range(len(points))]
    process.store.add_documents("docs", batch(numbered(len(points)), metadatas=metadatas, vectors=points), OPTIONS)
    process.drain()


def _report(process):
    with process.catalog.read() as transaction:
        return reports.find(transaction, find_collection(transaction, "docs").key)


def _measured_again(process):
    process.store.indexes.check("docs")
    process.drain()
    return _report(process)


def _points(count=COUNT):
    return np.random.default_rng(5).normal(size=(count, 8)).astype("<f4")


def _found(process, query, where=None):
    planner = Planner(process.catalog, process, INDEX_IS_CHEAP)
    found = planner.query("docs", query, top_k=TOP_K, where=parse_where(where or {}))
    return found.plan, [match.document.id for match in found.matches], found.recall


def _nearest(points, query, places):
    normed = points / np.linalg.norm(points.astype(float), axis=1, keepdims=True)
    order = np.argsort(-(normed[places] @ query), kind="stable")[:TOP_K]
    return {f"d{places[row]}" for row in order}


def _compared(world):
    """Return a measurement that has compared all vectors and asked the engine nothing."""
    with world.process.catalog.read() as transaction:
        collection = find_collection(transaction, "docs")
        sampled = samples.spread(transaction, collection, 20)
    measurement = RecallMeasurement(world.process.catalog, world.engine, collection, sampled, enough=ENOUGH)
    while not measurement._is_compared:
        assert measurement.step()
    return measurement


def _completed(measurement):
    while measurement.step():
        pass
    return measurement.result


def _finds_from(number):
    """Return a query of an engine that finds what is far when a measurement, or a query, asks for fewer candidates."""

    def interpose(world):
        query = world.engine.query

        def searched(engine_id, vectors, candidates):
            everything = query(engine_id, vectors, COUNT)
            canary = len(vectors) == 1 and candidates == 20
            if canary or candidates >= number:
                return [found[:candidates] for found in everything]
            return [found[TOP_K:][-candidates:] for found in everything]

        world.process.engine.query = searched

    return interpose


@pytest.mark.slow
def test_a_real_index_that_misses_too_many_is_searched_more_widely_at_once_and_after_a_rebuild(tmp_path, narrow):
    points, queries = vector_set("common mean", 6_000, 64)
    process = Process(tmp_path, narrow)
    process.lead()
    try:
        _fill(process, points)
        report = _measured_again(process)
        width = report.search_width
        assert report.candidates == width == narrow.get_collection("docs").search_width > SEARCH_WIDTHS[0]
        assert min(report.recall_at_10, report.filtered_recall_at_10) >= ENOUGH
        hits = []
        for query, (where, step) in itertools.product(queries, (({}, 1), ({"even": True}, 2))):
            plan, ids, recall = _found(process, query, where)
            assert (plan, recall) == (
                ("index+filter", report.filtered_recall_at_10) if where else ("index", report.recall_at_10)
            )
            hits.append(len(_nearest(points, query, np.arange(0, len(points), step)).intersection(ids)))
        assert sum(hits) / (TOP_K * len(hits)) >= ENOUGH
        # Rebuilt, the index has its width from the beginning. It is another graph, which may need yet more.
        process.store.indexes.rebuild("docs")
        process.drain()
        rebuilt = _measured_again(process)
        assert rebuilt.rebuilds == 1
        assert rebuilt.search_width == narrow.get_collection("docs").search_width >= width
        assert rebuilt.candidates in (None, rebuilt.search_width)
        assert min(rebuilt.recall_at_10, rebuilt.filtered_recall_at_10) >= ENOUGH
        assert process.store.collection("docs").configuration == CONFIGURATION
    finally:
        process.close()


@pytest.mark.slow
@pytest.mark.parametrize("needed", [800, 1_600])
def test_the_least_width_that_is_enough_is_taken(world, needed):
    _fill(world.process, _points())
    _finds_from(needed)(world)
    report = _measured_again(world.process)
    assert (report.recall_at_10, report.filtered_recall_at_10) == (1.0, 1.0)
    assert report.candidates == report.search_width == world.engine.get_collection("docs").search_width == needed


@pytest.mark.slow
def test_an_index_that_no_width_helps_is_not_asked(world):
    points = _points()
    _fill(world.process, points)
    query = points[7]
    world.process.drain_until(lambda: _report(world.process).recall_at_10 == 1.0)
    assert _found(world.process, query)[0] == "index"
    _finds_from(COUNT + 1)(world)
    report = _measured_again(world.process)
    assert report.lowest_recall < 0.5
    assert (report.candidates, report.search_width) == (None, None)
    world.names.clear()
    plan, ids, recall = _found(world.process, query)
    assert (plan, set(ids), recall) == ("exact", _nearest(points, query, np.arange(COUNT)), None)
    assert "query" not in world.names
    # A measurement that finds it good again has it asked again.
    del world.process.engine.query
    _measured_again(world.process)
    assert _found(world.process, query)[0] == "index"


@pytest.mark.slow
def test_an_index_that_needs_no_more_candidates_keeps_its_width(world):
    _fill(world.process, _points())
    _finds_from(1_600)(world)
    assert _measured_again(world.process).candidates == 1_600
    del world.process.engine.query  # as if the engine had loaded the index with its new width
    report = _measured_again(world.process)
    assert (report.candidates, report.search_width) == (None, 1_600)


@pytest.mark.slow
def test_a_width_that_the_engine_was_not_told_of_is_told_when_it_starts_again(world):
    _fill(world.process, _points())
    _finds_from(800)(world)
    _measured_again(world.process)
    world.engine.widen_search("docs", SEARCH_WIDTHS[0])
    world.process.lead_again()
    world.process.drain()
    assert world.engine.get_collection("docs").search_width == 800


@pytest.mark.parametrize("numbers", [range(50), range(100, 300)], ids=["replaced", "added"])
def test_what_is_written_while_recall_is_measured_counts_neither_way(world, numbers):
    """Where documents come, the engine is asked for all that there were, and some are farther than the new ones."""
    points = _points(300)
    _fill(world.process, points[:100])
    measurement = _compared(world)
    _replace(world, points, numbers)
    world.process.drain()
    result = _completed(measurement)
    assert (result.unfiltered, result.filtered, result.candidates) == (1.0, 1.0, None)


def _note(process, **columns):
    def operation(transaction):
        reports.write(transaction, find_collection(transaction, "docs").key, **columns)

    process.catalog.commit(operation)


@pytest.mark.parametrize(("where", "plan"), [({}, "index"), ({"even": True}, "index+filter")])
def test_an_index_is_asked_when_its_lowest_recall_is_enough_and_the_answer_has_that_of_such_queries(world, where, plan):
    points = _points(400)
    _fill(world.process, points)
    _note(world.process, recall_at_10=0.98, filtered_recall_at_10=0.9)

    def found(least):
        planner = Planner(world.process.catalog, world.process, INDEX_IS_CHEAP, exact_ms=0.01, least_recall=least)
        answer = planner.query("docs", points[0], top_k=3, where=parse_where(where))
        return answer.plan, answer.recall

    assert found(0.9) == found(0.0) == (plan, 0.9 if where else 0.98)
    assert found(0.91) == ("exact", None)


@pytest.mark.parametrize("where", [{}, {"even": True}])
def test_an_index_is_asked_for_as_many_candidates_as_its_recall_requires_unless_that_costs_more(world, where):
    points = _points(400)
    _fill(world.process, points)
    _note(world.process, recall_at_10=1.0, filtered_recall_at_10=1.0, candidates=100)
    query, asked = world.process.engine.query, []

    def observed(engine_id, vectors, candidates):
        asked.append(candidates)
        return query(engine_id, vectors, candidates)

    world.process.engine.query = observed
    assert _found(world.process, points[0], where)[0].startswith("index")
    assert asked == [100]
    costs = CostModel(exact_per_document=1.0, exact_per_component=0.0, index_base=400.0, index_per_candidate=1.0)
    planner = Planner(world.process.catalog, world.process, costs)
    assert planner.query("docs", points[0], top_k=3, where=parse_where(where)).plan == "exact"
    assert asked == [100]


@pytest.mark.slow
def test_questions_that_the_index_answered_are_measured_apart_from_stored_vectors(tmp_path):
    asked = AskedVectors()
    world = World(tmp_path, questions=asked.of)
    try:
        points = _points()
        _fill(world.process, points)
        question = -points.mean(axis=0)
        planner = Planner(world.process.catalog, world.process, INDEX_IS_CHEAP, asked=asked)
        assert planner.query("docs", question, top_k=TOP_K).plan == "index"
        query = world.engine.query

        def searched(engine_id, vectors, candidates):
            """Find what is far from the question unless the search is wide."""
            everything = query(engine_id, vectors, COUNT)
            missed = [candidates < 1_600 and bool(np.allclose(vector, question)) for vector in vectors]
            return [
                ids[TOP_K:][-candidates:] if is_missed else ids[:candidates]
                for ids, is_missed in zip(everything, missed, strict=True)
            ]

        world.process.engine.query = searched
        report = _measured_again(world.process)
        assert (report.candidates, report.recall_at_10, report.filtered_recall_at_10) == (1_600, 1.0, 1.0)
    finally:
        world.process.close()


@pytest.fixture
def timed(tmp_path):
    """A world, and the time by its clock in seconds, which stands still."""
    now = [0.0]
    world = World(tmp_path, clock=lambda: now[0])
    yield world, now
    world.process.close()


def _replace(world, points, numbers):
    ids = [f"d{number}" for number in numbers]
    world.store.add_documents("docs", batch(ids, vectors=-points[list(numbers)]), OPTIONS)


@pytest.mark.parametrize("deletes", [False, True])
def test_an_index_is_measured_again_when_half_of_its_collection_was_written_or_deleted(timed, deletes):
    world, now = timed
    points = _points(100)
    _fill(world.process, points)
    first = _measured_again(world.process).recall_at_seconds

    def measured_after_changing(numbers):
        if deletes:
            world.store.delete_documents("docs", ids=[f"d{number}" for number in numbers], options=OPTIONS)
        else:
            _replace(world, points, numbers)
        now[0] += EVERY_SECONDS + 1
        world.process.drain()
        return _report(world.process).recall_at_seconds

    assert measured_after_changing(range(49)) == first
    assert measured_after_changing([49]) > first


@pytest.mark.parametrize("call_seconds", [0.1, 100.0])
def test_a_long_measurement_is_followed_by_a_long_rest(timed, call_seconds):
    world, now = timed
    _fill(world.process, _points(100))
    query = world.engine.query

    def slow(engine_id, vectors, candidates):
        now[0] += call_seconds
        return query(engine_id, vectors, candidates)

    world.process.engine.query = slow
    first = _measured_again(world.process).recall_at_seconds
    world.process.engine.query = query
    ended = now[0]
    # One of its calls, or all of them with the one before it.
    for took, share, is_measured in ((call_seconds, 0.98, False), (ended, 1.1, True)):
        now[0] = ended + share * max(took * RESTS_A_MEASUREMENT, RECALL_EVERY_SECONDS)
        world.process.drain()
        assert (_report(world.process).recall_at_seconds > first) is is_measured


def test_what_was_measured_of_an_index_is_forgotten_with_its_documents(world):
    _fill(world.process, _points(100))
    _note(world.process, recall_at_10=0.9, filtered_recall_at_10=0.8, candidates=800)
    world.store.empty_collection("docs", OPTIONS)
    report = _report(world.process)
    assert (report.recall_at_10, report.filtered_recall_at_10, report.candidates) == (None, None, None)


@pytest.mark.slow
def test_each_measurement_asks_for_other_documents_of_the_whole_collection(world):
    count = 300
    points = _points(count)
    _fill(world.process, points)
    query, asked = world.engine.query, []

    def observed(engine_id, vectors, candidates):
        asked.append({int(np.argmin(np.abs(points - vector).sum(axis=1))) for vector in vectors})
        return query(engine_id, vectors, candidates)

    world.process.engine.query = observed
    for _ in range(5):
        asked.append(set())
        _measured_again(world.process)
    everything = set().union(*asked)
    assert len(everything) > 60  # 20 at each
    assert min(everything) < count // 10
    assert max(everything) > count - count // 10
