"""A real engine under a real keeper, one for all tests that do not end it: each has collections of its own names."""

from contextlib import contextmanager

import pytest

from tests.support.live import eventually
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper


@contextmanager
def running_engine(data_dir, **options):
    """Start an engine, and give a client of it."""
    keeper, reader = start_keeper(data_dir), EngineStateReader(data_dir)
    eventually(lambda: reader.read().ready)
    client = EngineClient(reader.url, **options)
    yield client
    client.close()
    assert keeper.stop() == 0


@pytest.fixture(scope="session")
def engine_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("engine")


@pytest.fixture(scope="session")
def client(engine_dir):
    with running_engine(engine_dir) as client:
        yield client
