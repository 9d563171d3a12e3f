"""What the processes of the service take of the machine, read from Linux' `/proc`; elsewhere nothing is known.

One process answers for all, so numbers are by what a process is for (`master`, `worker`, `keeper`, `engine`, `helper`)
and summed over the processes of that kind.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wrapper.observing.gauges import Gauge

PROC = Path("/proc")
MASTER, WORKER, KEEPER, ENGINE, HELPER = "master", "worker", "keeper", "engine", "helper"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Used:
    """What one process takes. `ended_cpu_seconds` is the processor time of its children that have ended."""

    cpu_seconds: float
    ended_cpu_seconds: float
    resident_bytes: int
    threads: int
    open_files: int
    started_at_seconds: float


def of_processes(master: int | None, keeper: int | None, engine: int | None) -> Iterator[Gauge]:
    """Yield gauges of all processes below `master`, or of this one and its children where it has none."""
    groups: dict[str, list[Used]] = defaultdict(list)
    kinds = {pid: kind for pid, kind in ((keeper, KEEPER), (engine, ENGINE)) if pid}
    workers = [os.getpid()] if master is None else [pid for pid in _children(master) if pid not in kinds]
    for worker in workers:
        kinds.setdefault(worker, WORKER)
        for helper in _children(worker):
            kinds.setdefault(helper, HELPER)
    if master is not None:
        kinds.setdefault(master, MASTER)
    boot = _boot_seconds()
    for pid, kind in kinds.items():
        with suppress(OSError, ValueError, IndexError):
            groups[kind].append(_used(pid, boot))
    # The time of workers that have ended is known to the master: without it a counter would fall.
    ended = sum(each.ended_cpu_seconds for each in groups.get(MASTER, []))
    for kind, found in groups.items():
        labels = {"process": kind}
        cpu_seconds = sum(each.cpu_seconds for each in found) + (ended if kind == WORKER else 0.0)
        yield Gauge("rag_processes", "Processes of the service", len(found), labels)
        yield Gauge("rag_process_cpu_seconds_total", "Processor time taken", cpu_seconds, labels)
        yield Gauge(
            "rag_process_resident_memory_bytes", "Memory in use", sum(each.resident_bytes for each in found), labels
        )
        yield Gauge("rag_process_open_fds", "Open files", sum(each.open_files for each in found), labels)
        yield Gauge("rag_process_threads", "Threads", sum(each.threads for each in found), labels)
        yield Gauge(
            "rag_process_start_time_seconds",
            "When the oldest of them started, since 1970",
            min(each.started_at_seconds for each in found),
            labels,
        )


def _used(pid: int, boot_seconds: float) -> Used:
    place = PROC / str(pid)
    # The name of the program may hold anything, parentheses and blanks too.
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    memory = (place / "statm").read_text().split()
    return Used(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
        ended_cpu_seconds=(int(fields[13]) + int(fields[14])) / TICKS,
        resident_bytes=int(memory[1]) * PAGE_BYTES,
        threads=int(fields[17]),
        open_files=len(os.listdir(place / "fd")),
        started_at_seconds=boot_seconds + int(fields[19]) / TICKS,
    )


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in (PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _boot_seconds() -> float:
    with suppress(OSError, ValueError):
        for line in (PROC / "stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
    return 0.0
