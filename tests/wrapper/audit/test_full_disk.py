"""On a full disk nothing begins that must be recorded, and what has begun still gets its line. Processes that append at once,
and one that is killed meanwhile, neither tear nor lose each other's lines."""

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from schemas.access.callers import ANYBODY, Scope
from schemas.errors import AuditUnwritableError, NotRecordedError, UnavailableError
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.audit.conftest import entries, event, lines_of
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in
from wrapper.audit.lines import MAX_LINE_BYTES
from wrapper.audit.noted import Noted
from wrapper.audit.recording import Asked, Recorder

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


def test_the_largest_line_is_about_as_long_as_a_line_may_be(open_log, folder):
    open_log().append(event(**LARGEST), checked=False)
    assert MAX_LINE_BYTES // 3 < (folder / str(files_in(folder)[0])).stat().st_size <= MAX_LINE_BYTES


def test_a_file_is_not_finished_while_there_is_no_room_for_the_next_one(disk, open_log, folder, clock):
    log = open_log(max_bytes=500, requests_at_once=16)
    log.check()
    filler = fill(disk)
    clock.now += timedelta(days=2)
    for number in range(8):
        log.check()
        log.append(event(number), checked=True)
    assert [str(each) for each in files_in(folder)] == ["audit-2026-11-23-0001.jsonl"]
    filler.unlink()
    log.append(event(8), checked=False)
    assert [str(each) for each in files_in(folder)][1:] == ["audit-2026-11-25-0001.jsonl"]
    assert [line["count"] for line in lines_of(folder)] == list(range(9))


def test_what_is_refused_and_what_is_told(disk, open_log):
    recorder = Recorder(open_log(requests_at_once=16), with_reads=False)
    filler = fill(disk)
    write = Asked("POST", "/collections/{name}/documents", Scope.WRITE)
    with pytest.raises(AuditUnwritableError):
        recorder.check(write, Noted())
    with pytest.raises(UnavailableError) as refused:
        recorder.check(Asked("POST", "/api/chat", Scope.CHAT), Noted())
    assert refused.value.code == "audit_unavailable"
    recorder.check(Asked("GET", "/collections", Scope.READ), Noted())
    recorder.record(write, Noted(), None, 401)
    with pytest.raises(NotRecordedError):
        recorder.record(write, Noted(is_recordable=True), ANYBODY, 201)
    filler.unlink()
    noted = Noted()
    recorder.check(write, noted)
    fill(disk)
    recorder.record(write, noted, ANYBODY, 201)


TOO_LARGE = """
import sys
from pathlib import Path
from schemas.errors import AuditUnwritableError
from schemas.storage.audit import AuditEvent
from wrapper.audit.audit_log import AuditLog
log = AuditLog(Path(sys.argv[1]), max_bytes=1 << 30, requests_at_once=0)
for number in range(10_000):
    try:
        log.append(AuditEvent("POST", "/collections", 201, count=number), checked=False)
    except AuditUnwritableError:
        print(number)
        break
"""


def test_a_line_of_which_only_a_part_fits_leaves_nothing(tmp_path):
    """The kernel takes the part of a line that fits below the largest size of a file."""
    folder = tmp_path / "bounded"

    def bound():
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_100, 10_100))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run(
        [sys.executable, "-c", TOO_LARGE, folder],
        preexec_fn=bound,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    content = (folder / str(files_in(folder)[0])).read_bytes()
    assert content.endswith(b"\n")
    assert content.count(b"\n") == int(done.stdout)
    assert len(content) < 10_100
    log = AuditLog(folder, max_bytes=1 << 30, requests_at_once=4)
    log.append(event(), checked=False)
    log.close()
    assert entries(folder)[1] == 0
    assert os.listdir(folder)


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
