"""A real engine under a real keeper, and a way to wait for processes."""

import pytest

from tests.support import live
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper


@pytest.fixture(scope="session")
def eventually():
    return live.eventually


@pytest.fixture(scope="module")
def engine_dir(tmp_path_factory, processes):
    data_dir = tmp_path_factory.mktemp("engine")
    keeper = start_keeper(data_dir)
    reader = EngineStateReader(data_dir)
    live.eventually(lambda: reader.read().ready)
    yield data_dir
    assert keeper.stop() == 0


@pytest.fixture(scope="module")
def client(engine_dir):
    client = EngineClient(EngineStateReader(engine_dir).url)
    yield client
    client.close()
