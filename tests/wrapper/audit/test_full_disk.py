"""On a full disk nothing begins that must be recorded, and what has begun still gets its line. Processes that append at once,
and one that is killed meanwhile, neither tear nor lose each other's lines."""

import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from schemas.errors import AuditUnwritableError
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.audit.conftest import entries, event, lines_of
from wrapper.audit.file_names import files_in

LARGEST = {"user": "\x00" * 32, "collection": "c" * 1_024, "request_id": "r" * 128, "address": "a" * 128}


@pytest.fixture
def disk(tmp_path):
    """A file system of 2 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip("no small disk can be mounted here, which needs the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def folder(disk):
    return disk / "audit"


def fill(disk):
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12 if shutil.disk_usage(disk).free > 1 << 12 else 1))
    assert shutil.disk_usage(disk).free == 0
    return filler


def test_every_request_that_was_let_through_gets_its_line(disk, open_log, folder):
    """The longest lines there are, from as many requests as may be on their way, after others have used the reserve
    down to where nothing new is let through."""
    log, other = open_log(requests_at_once=16), open_log(requests_at_once=16)
    log.check()
    filler = fill(disk)
    written = 0
    while True:
        try:
            log.check()
        except AuditUnwritableError as refused:
            assert "No space left" in refused.message
            break
        log.append(event(written, **LARGEST), checked=True)
        written += 1
    assert written > 16
    with pytest.raises(AuditUnwritableError):
        log.append(event(-1), checked=False)
    # The last one that was let through saw the room of all: fifteen more may have been let through with it.
    for _ in range(15):
        other.append(event(written, **LARGEST), checked=True)
        written += 1
    found, skipped = entries(folder)
    assert [each.event.count for each in reversed(found)] == list(range(written))
    assert skipped == 0
    filler.unlink()
    log.check()
    log.append(event(written), checked=True)
    assert len(lines_of(folder)) == written + 1


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
def roomy(tmp_path):
    """The folder of a log that is not on the small disk."""
    return tmp_path / "audit"


@pytest.fixture
def appending(roomy, processes):
    """`appending(name, count)` starts a process that appends to the log of the test."""
    with ExitStack() as stack:

        def start(name, count):
            process = subprocess.Popen(
                [sys.executable, "-c", APPENDING, roomy, name, str(count), str(MAX_BYTES)],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(PROJECT)},
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def written_by(roomy, *, killed=0):
    found = defaultdict(list)
    for line in lines_of(roomy, killed=killed):
        found[line["key_id"]].append(line["count"])
    return found


def test_four_processes_at_once_lose_no_line_across_rotations(appending, roomy):
    running = [appending(f"p{number}", LINES) for number in range(4)]
    for each in running:
        each.communicate(timeout=PATIENCE_SECONDS)
    assert [each.returncode for each in running] == [0] * 4
    assert written_by(roomy) == {f"p{number}": list(range(LINES)) for number in range(4)}
    assert entries(roomy)[1] == 0
    sizes = [(roomy / str(name)).stat().st_size for name in files_in(roomy)]
    assert len(sizes) > 50
    assert all(MAX_BYTES <= size < MAX_BYTES + 4_096 for size in sizes[:-1])


def test_a_process_that_is_killed_leaves_the_others_and_all_that_it_acknowledged(appending, roomy):
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
    found = written_by(roomy, killed=len(acknowledged))
    assert entries(roomy)[1] <= len(acknowledged)
    for number in range(2):
        assert found[f"p{number}"] == list(range(2_000))
    for name, last in acknowledged.items():
        assert found[name][: last + 1] == list(range(last + 1))
        assert len(found[name]) <= last + 2, "at most the line that was under way is there besides"
