"""Commands against the live service."""

import pytest

from tests.support.commands import run_command


@pytest.fixture
def run_live(live):
    """`run_live(command, …)`: runs a command with the live service's address."""
    return lambda *arguments: run_command(*arguments, "--url", live.url)
