"""Processes that append at once, and one that is killed meanwhile, neither tear nor lose each other's lines."""

import os
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.audit.conftest import entries, lines_of
from wrapper.audit.file_names import files_in

PROJECT = Path(__file__).parents[3]
APPENDING = """
import sys
from itertools import count
from pathlib import Path

from schemas.storage.audit import AuditEvent
from wrapper.audit.audit_log import AuditLog

folder, name, most, max_bytes = sys.argv[1:]
log = AuditLog(Path(folder), max_bytes=int(max_bytes), requests_at_once=16)
for number in range(int(most)) if most != "0" else count():
    log.check()
    log.append(AuditEvent("POST", "/collections", 201, key_id=name, count=number), checked=True)
    print(number, flush=True)
"""
"""It prints the number of each line once that is written. A `most` of 0 means until it is killed."""
LINES = 3_000
MAX_BYTES = 15_000


@pytest.fixture
def appending(folder, processes):
    """`appending(name, count)` starts a process that appends to the log of the test."""
    with ExitStack() as stack:

        def start(name, count):
            process = subprocess.Popen(
                [sys.executable, "-c", APPENDING, folder, name, str(count), str(MAX_BYTES)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(PROJECT)},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def written_by(folder, *, killed=0):
    found = defaultdict(list)
    for line in lines_of(folder, killed=killed):
        found[line["key_id"]].append(line["count"])
    return found


def test_four_processes_at_once_lose_no_line_across_rotations(appending, folder):
    running = [appending(f"p{number}", LINES) for number in range(4)]
    for each in running:
        each.communicate(timeout=PATIENCE_SECONDS)
    assert [each.returncode for each in running] == [0] * 4
    assert written_by(folder) == {f"p{number}": list(range(LINES)) for number in range(4)}
    assert entries(folder)[1] == 0
    sizes = [(folder / str(name)).stat().st_size for name in files_in(folder)]
    assert len(sizes) > 50
    assert all(MAX_BYTES <= size < MAX_BYTES + 4_096 for size in sizes[:-1])


def test_a_process_that_is_killed_leaves_the_others_and_all_that_it_acknowledged(appending, folder):
    others = [appending(f"p{number}", 2_000) for number in range(2)]
    acknowledged = {}
    for number in range(6):
        doomed = appending(f"doomed{number}", 0)
        for _ in range(50 * (number + 1)):
            doomed.stdout.readline()
        doomed.send_signal(signal.SIGKILL)
        whole = [int(line) for line in doomed.stdout.readlines() if line.endswith("\n")]
        doomed.wait(PATIENCE_SECONDS)
        acknowledged[f"doomed{number}"] = max(whole, default=50 * (number + 1) - 1)
    for each in others:
        each.communicate(timeout=PATIENCE_SECONDS)
    found = written_by(folder, killed=len(acknowledged))
    assert entries(folder)[1] <= len(acknowledged)
    for number in range(2):
        assert found[f"p{number}"] == list(range(2_000))
    for name, last in acknowledged.items():
        assert found[name][: last + 1] == list(range(last + 1))
        assert len(found[name]) <= last + 2, "at most the line that was under way is there besides"
