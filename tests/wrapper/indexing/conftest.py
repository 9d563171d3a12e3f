"""Processes of the service on an engine in memory."""

from contextlib import ExitStack

import pytest

from tests.properties.fake_engine import FakeEngine
from tests.properties.processes import Process
from tests.support.worlds import World
from tests.wrapper.indexing.workers import Workers


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def start(tmp_path, engine):
    """`start()` opens a process of the service that leads."""
    opened = []

    def open_process(**kwargs):
        process = Process(tmp_path, engine, **kwargs)
        opened.append(process)
        process.lead()
        return process

    yield open_process
    for process in opened:
        process.close()


@pytest.fixture
def world(tmp_path, engine):
    """A service without threads, whose engine can be made to fail."""
    world = World(tmp_path, engine)
    yield world
    world.process.close()


@pytest.fixture
def workers(tmp_path):
    with ExitStack() as stack:
        yield Workers(tmp_path, stack)
