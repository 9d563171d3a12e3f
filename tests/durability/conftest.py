"""Give each test a service of its own, because what is done to it would disturb other tests."""

import os
import signal
from contextlib import ExitStack

import pytest

from tests.support.chroma import ChromaServer
from tests.support.live import start_service


@pytest.fixture(autouse=True)
def processes_of_their_own(processes):
    """Mark every test of this folder, because all of them start, stop or kill processes."""


@pytest.fixture
def serve(tmp_path):
    """`serve(**settings)` starts a service in the test's directory and ends it after the test. The service asks the
    index unless the settings say otherwise, because most tests here are about the index."""
    with ExitStack() as stack:

        def start(**settings):
            service = start_service(tmp_path, **{"memory_vectors_mb": 0, "exact_ms": 0, "recall": 0, **settings})
            stack.callback(service.stop)
            return service

        yield start


@pytest.fixture(scope="session")
def load_seconds():
    """The seconds for which the tests under load run: a minute when RAG_TEST_LONG is set."""
    return 60.0 if os.environ.get("RAG_TEST_LONG") else 2.0


@pytest.fixture
def chroma_server(tmp_path):
    """A stock Chroma server on the test's directory `elsewhere`."""
    server = ChromaServer(tmp_path / "elsewhere")
    server.start()
    yield server
    server.stop(signal.SIGKILL)
