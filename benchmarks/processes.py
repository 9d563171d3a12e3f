"""Memory and processor time of the services' processes, read from /proc. A system without /proc has no
figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interfaces.commands.scratch_service import processes_in

PROCESSES = {
    "chroma_main": "engine (Chroma server)",
    "wrapper.engine.keeper": "engine's keeper",
    "chroma run": "Chroma server",
}


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Megabytes of one process.

    pss: shared pages divided among the processes that share them, so that it adds up; anonymous: the heap; file: mapped
    files, which the kernel takes back when it needs the space.
    """

    side: str
    process: str
    pid: int
    rss_mb: float
    pss_mb: float
    anonymous_mb: float
    file_mb: float


def memory_of(side: str, directory: Path) -> list[ProcessMemory]:
    """Return the processes of a service that works in `directory`, largest first; none where there is no /proc."""
    found = []
    for pid in processes_in(directory):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            name = _called(pid)
        except OSError:
            continue
        kib = {name: float(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        megabytes = [kib[name] / 1024 for name in ("Rss", "Pss", "Pss_Anon", "Pss_File")]
        found.append(ProcessMemory(side, name, pid, *megabytes))
    return sorted(found, key=lambda each: -each.pss_mb)


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the processor time, user and system, that these processes have taken together."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def proc_value(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "0 (unknown)"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "0 (unknown)")


def _called(pid: int) -> str:
    command, parent = _command(pid), _command(int(proc_value(f"/proc/{pid}/status", "PPid")))
    if _is_gunicorn(command):
        return "gunicorn worker" if _is_gunicorn(parent) else "gunicorn master"
    return next((name for part, name in PROCESSES.items() if part in command), command[:60])


def _is_gunicorn(command: str) -> bool:
    return "gunicorn" in command or "rag-wrapper serve" in command


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
