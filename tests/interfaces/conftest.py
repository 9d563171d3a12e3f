"""Commands against the live service, and a service for connections to lead to."""

import orjson
import pytest

from tests.registry.hostile import response
from tests.support.commands import run_command
from tests.support.raw_server import raw_server

TYPED = "sk-typed-by-a-person-93af"
"""A secret that people type, which a service may repeat."""


@pytest.fixture
def run_live(live):
    """`run_live(command, …)`: runs a command with the live service's address."""
    return lambda *arguments: run_command(*arguments, "--url", live.url)


@pytest.fixture
def service_behind():
    """A small service that lists one collection whatever it is asked, and keeps the requests."""
    listed = orjson.dumps({"collections": [{"name": f"of {TYPED}", "count": 1, "metadata": {}}]})

    def speak(server, connection):
        if server.requests[-1]:
            connection.sendall(response(listed))

    with raw_server(speak) as server:
        yield server
