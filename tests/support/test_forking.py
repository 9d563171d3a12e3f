"""A forked command is to its caller what the executed one is."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from interfaces.commands.scratch_service import processes_in
from tests.support.forking import RUN_MAIN, SCRIPT, Forked
from tests.support.live import eventually

EXECUTED = subprocess.Popen


def run(kind, *words, **options):
    with kind([*RUN_MAIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.slow  # it starts Python as users do, to compare with
@pytest.mark.parametrize(
    "words",
    [["--version"], ["search", "x", "--url", "http://127.0.0.1:1"], ["nonsense"], ["serve", "--config", "/nowhere"]],
    ids=" ".join,
)
def test_it_says_and_returns_what_the_executed_one_does(words, tmp_path):
    environ = {"PATH": os.environ["PATH"], "RAG_DATA_DIR": str(tmp_path), "RAG_LOG_FORMAT": "console"}
    forked, executed = (run(kind, *words, env=environ | os.environ, cwd=tmp_path) for kind in (Forked, EXECUTED))
    assert forked == executed


@pytest.mark.slow  # it starts the process that forks
def test_it_is_a_child_that_can_be_found_by_its_words_and_ends_by_a_signal(tmp_path):
    environ = os.environ | {"RAG_DATA_DIR": str(tmp_path)}
    with Forked([SCRIPT, "mcp"], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as waiting:
        eventually(lambda: waiting.pid in processes_in(tmp_path))
        shown = Path(f"/proc/{waiting.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        assert shown == [os.fsencode(SCRIPT), b"mcp"]
        waiting.send_signal(signal.SIGKILL)
        assert waiting.wait() == -signal.SIGKILL
