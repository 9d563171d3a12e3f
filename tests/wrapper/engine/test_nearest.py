"""Queries that come together are sent together; when an engine has not answered, a single query tries it again."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError, EngineUnavailableError
from wrapper.engine.nearest import CALLS_AT_ONCE, DISTRUST_SECONDS, QUERIES_PER_CALL, EngineIndex

VECTOR = np.ones(2, dtype="<f4")


class Engine:
    """Answers each query with its own first component, after waiting for `go`."""

    def __init__(self):
        self.failure = None
        self.calls = []
        self.asked = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()

    def query(self, engine_id, embeddings, n_results, *, timeout_seconds):
        self.calls.append((engine_id, len(embeddings), n_results))
        self.asked.release()
        assert self.go.wait(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure
        return [[f"{embedding[0]:g}"] for embedding in embeddings]


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def index(engine, now):
    return EngineIndex(engine, lambda: True, clock=lambda: now[0])


def _fail(index):
    with pytest.raises(UnavailableError):
        index.nearest("id", VECTOR, 1)


def test_an_engine_that_did_not_answer_is_left_alone_and_then_probed_once(index, engine, now):
    engine.failure = EngineUnavailableError("silent")
    _fail(index)
    assert not index.is_ready()
    now[0] += DISTRUST_SECONDS
    assert index.is_ready()
    _fail(index)
    assert not index.is_ready(), "a probe that fails starts the pause again"
    now[0] += DISTRUST_SECONDS
    assert [index.is_ready() for _ in range(3)] == [True, False, False]
    engine.failure = None
    assert index.nearest("id", VECTOR, 1) == ["1"]
    assert all(index.is_ready() for _ in range(3))


@pytest.mark.parametrize("failure", [EngineBrokenError("its index"), EngineRefusedError("dimension")])
def test_one_collection_that_fails_says_nothing_of_the_others(index, engine, failure):
    """Its index is broken, also where the engine refuses the query."""
    engine.failure = failure
    with pytest.raises(EngineBrokenError):
        index.nearest("id", VECTOR, 1)
    assert index.is_ready()
    assert not EngineIndex(engine, lambda: False).is_ready()


def _behind_calls_under_way(index, engine, queries):
    """Return the answers to `queries`, (engine id, number, n_results), which came while the engine was busy.

    Busy means that it had as many calls as it gets at once.
    """

    def ask(engine_id, number, n_results):
        return index.nearest(engine_id, np.full(2, number, dtype="<f4"), n_results)

    engine.go.clear()
    with ThreadPoolExecutor(CALLS_AT_ONCE + len(queries)) as threads:
        for number in range(CALLS_AT_ONCE):
            threads.submit(ask, "first", -number, 1)
            assert engine.asked.acquire(timeout=PATIENCE_SECONDS)
        asked = [threads.submit(ask, *query) for query in queries]
        eventually(lambda: index._queries.waiting == len(queries))
        engine.go.set()
        return [each.exception(PATIENCE_SECONDS) or each.result() for each in asked]


def test_queries_that_come_together_are_sent_together_and_each_gets_its_own_answer(index, engine):
    queries = [("id", number, 5) for number in range(QUERIES_PER_CALL + 3)]
    answers = _behind_calls_under_way(index, engine, queries)
    assert answers == [[f"{number}"] for _, number, _ in queries]
    sizes = [size for _, size, _ in engine.calls[CALLS_AT_ONCE:]]
    assert sum(sizes) == len(queries)
    assert max(sizes) == QUERIES_PER_CALL


def test_only_queries_of_one_collection_and_one_size_are_sent_together(index, engine):
    queries = [("one", 1, 5), ("two", 2, 5), ("one", 3, 5), ("one", 4, 500)]
    assert _behind_calls_under_way(index, engine, queries) == [["1"], ["2"], ["3"], ["4"]]
    assert sorted(engine.calls[CALLS_AT_ONCE:]) == [("one", 1, 500), ("one", 2, 5), ("two", 1, 5)]


def test_queries_behind_an_unanswered_call_do_not_wait_for_the_next(index, engine):
    engine.failure = EngineUnavailableError("silent")
    answers = _behind_calls_under_way(index, engine, [("id", number, 5) for number in range(3)])
    assert all(isinstance(answer, UnavailableError) for answer in answers)
    assert len(engine.calls) == CALLS_AT_ONCE
