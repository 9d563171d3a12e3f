"""Measure what a line of the audit log costs, alone and with other processes that write to it.

    python -m benchmarks.access.audit_log [--lines 20000] [--processes 4]

It appends lines of the usual length to a log in a scratch directory, as the service does for each write: `check` before
it, `append` after it. For comparison it has each line synced to the disk, which the service does not
(`docs/operations.md`, "Audit log"), and it reads the log back.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from schemas.storage.audit import AuditEvent, AuditQuery
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in
from wrapper.audit.reading import newest_page

SYNCED_LINES = 300
EVENT = AuditEvent(
    method="POST",
    route="/collections/{name}/documents",
    status=201,
    key_id="ab12cd34",
    scope="write",
    collection="team-handbook",
    count=500,
    address="192.0.2.7",
    request_id="0b6f1c2d7a4e4f0f9d5c3b2a19080706",
)


def opened(folder: Path) -> AuditLog:
    return AuditLog(folder, max_bytes=100 << 20, requests_at_once=416)


def append(folder: Path, lines: int) -> tuple[list[float], list[float]]:
    """Return the microseconds of each (`check`, `append`)."""
    log = opened(folder)
    checks, appends = [], []
    for _ in range(lines):
        started = time.perf_counter()
        log.check()
        checked = time.perf_counter()
        log.append(EVENT, checked=True)
        checks.append((checked - started) * 1e6)
        appends.append((time.perf_counter() - checked) * 1e6)
    log.close()
    return checks, appends


def append_synced(folder: Path) -> list[float]:
    log = opened(folder)
    log.append(EVENT, checked=False)
    descriptor = os.open(folder / str(files_in(folder)[-1]), os.O_RDONLY)
    taken = []
    for _ in range(SYNCED_LINES):
        started = time.perf_counter()
        log.append(EVENT, checked=True)
        os.fdatasync(descriptor)
        taken.append((time.perf_counter() - started) * 1e6)
    os.close(descriptor)
    log.close()
    return taken


def show(name: str, microseconds: list[float]) -> None:
    ordered = sorted(microseconds)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    print(f"{name:<40} {middle:10.1f} us median {late:10.1f} us p99")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        alone, together = Path(scratch, "alone"), Path(scratch, "together")
        checks, appends = append(alone, asked.lines)
        show("check", checks)
        show("append", appends)
        with get_context("spawn").Pool(asked.processes) as pool:
            started = time.perf_counter()
            done = pool.starmap(append, [(together, asked.lines)] * asked.processes)
            seconds = time.perf_counter() - started
        show(f"append, {asked.processes} processes at once", [each for _, taken in done for each in taken])
        print(f"{'lines a second of all processes':<40} {asked.processes * asked.lines / seconds:10.0f}")
        show("append and sync", append_synced(Path(scratch, "synced")))
        started = time.perf_counter()
        newest_page(alone, AuditQuery(key="nobody"), 1)
        seconds = time.perf_counter() - started
        size = sum((alone / str(name)).stat().st_size for name in files_in(alone))
        print(f"{'read back':<40} {size / seconds / 2**20:10.0f} MB/s, {size / asked.lines:.0f} bytes a line")


if __name__ == "__main__":
    main()
