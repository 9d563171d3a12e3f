"""What a soak looks at: memory, open files, threads, and the disk, of all processes of the service together."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import memory_of
from benchmarks.soak.load import Counts
from benchmarks.soak.running import RunningService
from wrapper.audit.audit_log import FOLDER


@dataclass(frozen=True)
class Sample:
    at_seconds: float
    memory_mb: float
    open_files: int
    threads: int
    disk_mb: float
    requests: int
    kills: int


@dataclass(frozen=True)
class Figure:
    unit: str
    allowed: float
    """The growth that is none: the share by which the end may be above the beginning."""


FIGURES = {
    "memory_mb": Figure("MB", 0.15),
    "open_files": Figure("files", 0.15),
    "threads": Figure("threads", 0.15),
    "disk_mb": Figure("MB", 0.25),
}


@dataclass(frozen=True)
class Growth:
    """The median of a figure in the first fifth of the time that counts, and in the last."""

    field: str
    before: float
    after: float

    @property
    def name(self) -> str:
        return self.field.replace("_mb", "").replace("_", " ")

    @property
    def has_grown(self) -> bool:
        return self.after > self.before * (1 + FIGURES[self.field].allowed)


def sample(service: RunningService, at_seconds: float, counts: Counts) -> Sample:
    """Return how much the service holds at this moment."""
    pids = service.pids()
    return Sample(
        round(at_seconds, 1),
        round(sum(each.pss_mb for each in memory_of("ours", service.data_dir)), 1),
        sum(_entries(pid, "fd") for pid in pids),
        sum(_entries(pid, "task") for pid in pids),
        round(_bytes_below(service.data_dir) / 1e6, 1),
        sum(counts.done.values()),
        counts.kills,
    )


def growth(samples: Sequence[Sample], settling_share: float) -> list[Growth]:
    """Return how each figure has changed since the service had settled."""
    settled = samples[int(len(samples) * settling_share) :]
    part = max(len(settled) // 5, 1)
    return [
        Growth(
            field,
            statistics.median(getattr(each, field) for each in settled[:part]),
            statistics.median(getattr(each, field) for each in settled[-part:]),
        )
        for field in FIGURES
    ]


def _entries(pid: int, what: str) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/{what}"))
    except OSError:
        return 0


def _bytes_below(directory: Path) -> int:
    """Return the size of what is stored. The audit log is left out: it keeps a line of each change, by promise."""
    total = 0
    for folder, folders, names in os.walk(directory):
        folders[:] = [each for each in folders if each != FOLDER]
        for name in names:
            with suppress(OSError):  # gone meanwhile
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
    return total
