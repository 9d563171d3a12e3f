"""The keeper's knowledge of the engine in `<data>/engine.json`, which every worker reads before a vector query.

Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

STATE_FILE = "engine.json"
LOOK_SECONDS = 0.25
STARTING, READY, UNRESPONSIVE, STOPPED = "starting", "ready", "unresponsive", "stopped"


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of the engine.

    `state` is `starting`, `ready`, `unresponsive` or `stopped`, and `since` is when it became so (ISO 8601, UTC).
    `pid_started` is the kernel's start time of `pid` in clock ticks, which distinguishes a process from a later one of
    the same number; `restarts` counts the engine's starts after the keeper's first.
    """

    state: str = STOPPED
    url: str = ""
    pid: int | None = None
    pid_started: int | None = None
    keeper_pid: int | None = None
    restarts: int = 0
    since: str = ""

    @property
    def ready(self) -> bool:
        return self.state == READY


class EngineStateReader:
    """A reader of one data directory's state.

    It parses the file only when it was replaced; a read costs microseconds.
    """

    def __init__(self, data_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = data_dir / STATE_FILE
        self._clock = clock
        self._seen: tuple[tuple[int, int], EngineState] | None = None
        self._checked: tuple[EngineState, float, EngineState] | None = None

    def read(self) -> EngineState:
        """Return the current state, `stopped` when the keeper has no file.

        It is `unresponsive` when a ready engine is gone and no keeper has said so because the keeper is gone too. That
        is checked every `LOOK_SECONDS`.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return EngineState()
        version = (status.st_mtime_ns, status.st_ino)
        seen = self._seen
        if seen is None or seen[0] != version:
            seen = self._seen = (version, _parse(self._path))
        state, now = seen[1], self._clock()
        checked = self._checked
        if checked is None or checked[0] is not state or now - checked[1] >= LOOK_SECONDS:
            checked = self._checked = (state, now, _as_the_kernel_knows(state))
        return checked[2]

    def url(self) -> str:
        """Return the engine's URL, empty when there is none: the `address` of an `EngineClient`."""
        return self.read().url


def read_state(data_dir: Path) -> EngineState:
    """Read the state once; frequent reads should keep an `EngineStateReader`."""
    return EngineStateReader(data_dir).read()


def write_state(data_dir: Path, state: EngineState) -> None:
    """Replace the file in one step: a reader sees the old state or the new one."""
    path = data_dir / STATE_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(state)))
    os.replace(temporary, path)


def request_restart(data_dir: Path) -> bool:
    """Ask the keeper to restart an engine that hung or answered with an internal error.

    Return False without a keeper.
    """
    keeper_pid = read_state(data_dir).keeper_pid
    if keeper_pid is None or not is_keeper(keeper_pid):
        return False
    os.kill(keeper_pid, signal.SIGUSR1)
    return True


def _as_the_kernel_knows(state: EngineState) -> EngineState:
    if state.pid is None or state.pid_started is None or start_time(state.pid) == state.pid_started:
        return state
    return replace(state, state=UNRESPONSIVE, url="", pid=None, pid_started=None)


def _parse(path: Path) -> EngineState:
    try:
        return EngineState(**json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return EngineState()


def start_time(pid: int) -> int | None:
    """Return when the kernel started a process, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_keeper(pid: int) -> bool:
    """Return whether the process of that number is a keeper, and not gone or another program."""
    try:
        return b"wrapper.engine.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
