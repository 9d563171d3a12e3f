"""After an engine did not answer, one query asks it again, not all that wait."""

import numpy as np
import pytest

from schemas.errors import UnavailableError
from wrapper.engine.errors import EngineBrokenError, EngineRefusedError, EngineUnavailableError
from wrapper.service import DISTRUST_SECONDS, EngineIndex

VECTOR = np.ones(2, dtype="<f4")


class Engine:
    def __init__(self):
        self.failure = None

    def query(self, engine_id, embedding, n_results, *, timeout_seconds):
        if self.failure is not None:
            raise self.failure
        return ["a"]


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
    assert [index.is_ready() for _ in range(3)] == [True, False, False]
    engine.failure = None
    assert index.nearest("id", VECTOR, 1) == ["a"]
    assert all(index.is_ready() for _ in range(3))


def test_a_probe_that_fails_starts_the_pause_again(index, engine, now):
    engine.failure = EngineUnavailableError("silent")
    _fail(index)
    now[0] += DISTRUST_SECONDS
    assert index.is_ready()
    _fail(index)
    assert not index.is_ready()


def test_one_collection_that_fails_says_nothing_of_the_others(index, engine):
    engine.failure = EngineBrokenError("its index")
    _fail(index)
    assert index.is_ready()


def test_a_refused_query_is_a_fault_of_the_index(index, engine):
    engine.failure = EngineRefusedError("dimension")
    with pytest.raises(EngineBrokenError):
        index.nearest("id", VECTOR, 1)


def test_an_engine_that_is_known_to_be_down_is_not_asked(engine):
    assert not EngineIndex(engine, lambda: False).is_ready()
