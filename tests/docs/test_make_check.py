"""`make check` starts no service: tests that start long-lived processes are marked, and no other test can start one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from interfaces.commands.scratch_service import scratch_service
from tests.support.chroma import ChromaServer
from tests.support.live import start_service
from tests.support.postgres import postgres_server, programs
from wrapper.engine.keeper_process import start_keeper

MAKEFILE = Path(__file__).parents[2] / "Makefile"
REFUSED = pytest.raises(AssertionError, match="must ask for the fixture `processes`")


def start_scratch_service(directory):
    with scratch_service(directory):
        pytest.fail("it started")


def start_postgres(directory):
    if programs() is None:
        pytest.skip("PostgreSQL is not installed here")
    with postgres_server():
        pytest.fail("it started")


@pytest.mark.parametrize(
    "start",
    [
        start_service,
        start_scratch_service,
        start_postgres,
        start_keeper,
        lambda directory: ChromaServer(directory).start(),
        lambda directory: subprocess.run(["rag-wrapper", "serve"], cwd=directory, check=False),
    ],
    ids=["a service", "a scratch service", "PostgreSQL", "a keeper", "Chroma", "the command"],
)
def test_a_test_without_the_mark_starts_no_long_lived_process(tmp_path, start):
    with REFUSED:
        start(tmp_path)


def test_make_check_is_everything_but_the_marked_tests():
    [recipe] = re.findall(r"^check: \$\(DEVELOPED\) lint\n\t(.+)", MAKEFILE.read_text(), re.MULTILINE)
    assert re.search(r'-m pytest .*-m "not processes"$', recipe)


def test_this_test_has_the_mark_because_it_asks_for_the_fixture(request, processes):
    assert request.node.get_closest_marker("processes") is not None
