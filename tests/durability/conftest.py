"""Services of this folder's own: what is done to them would disturb others."""

import os
import signal
from contextlib import ExitStack

import pytest

from tests.support.chroma import ChromaServer
from tests.support.live import start_service


@pytest.fixture
def serve(tmp_path):
    """`serve(**settings)` starts a service in the test's directory; whatever is left of it at the end is ended. It
    asks the index unless the settings say otherwise: the index is what most tests here are about."""
    with ExitStack() as stack:

        def start(**settings):
            service = start_service(tmp_path, **{"memory_vectors_mb": 0, "exact_ms": 0, **settings})
            stack.callback(service.stop)
            return service

        yield start


@pytest.fixture(scope="session")
def load_seconds():
    """How long the tests under load run: a minute when RAG_TEST_LONG is set."""
    return 60.0 if os.environ.get("RAG_TEST_LONG") else 3.0


@pytest.fixture
def chroma_server(tmp_path):
    """A stock Chroma server, on the test's directory `elsewhere`."""
    server = ChromaServer(tmp_path / "elsewhere")
    server.start()
    yield server
    server.stop(signal.SIGKILL)
