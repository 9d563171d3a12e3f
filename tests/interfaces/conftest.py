"""Commands against the live service."""

import pytest

from tests.support.commands import run_command


@pytest.fixture
def run_live(live):
    """`run_live(command, …)`: a command that is told where the live service is."""
    return lambda *arguments: run_command(*arguments, "--url", live.url)
