"""A real engine under a real keeper, and a way to wait for processes."""

import time

import pytest

from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper


def _eventually(condition, *, seconds=30.0):
    """Wait until `condition()` is true and return its value; fail after the deadline."""
    deadline = time.monotonic() + seconds
    while not (outcome := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.01)
    return outcome


@pytest.fixture(scope="session")
def eventually():
    return _eventually


@pytest.fixture(scope="module")
def engine_dir(tmp_path_factory, processes):
    data_dir = tmp_path_factory.mktemp("engine")
    keeper = start_keeper(data_dir)
    reader = EngineStateReader(data_dir)
    _eventually(lambda: reader.read().ready)
    yield data_dir
    assert keeper.stop() == 0


@pytest.fixture(scope="module")
def client(engine_dir):
    client = EngineClient(EngineStateReader(engine_dir).url)
    yield client
    client.close()
