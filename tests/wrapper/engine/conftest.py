"""A real engine under a real keeper, one for all tests that do not end it: each has collections of its own names."""

import pytest

from tests.support.live import eventually
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper


@pytest.fixture(scope="session")
def engine_dir(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("engine")
    keeper = start_keeper(data_dir)
    reader = EngineStateReader(data_dir)
    eventually(lambda: reader.read().ready)
    yield data_dir
    assert keeper.stop() == 0


@pytest.fixture(scope="session")
def client(engine_dir):
    client = EngineClient(EngineStateReader(engine_dir).url)
    yield client
    client.close()
