"""The keeper: one small process that owns the engine's process and restarts it when it dies or hangs.

It runs as `python -m wrapper.engine.keeper --data-dir D`, with the standard library only and one thread. Its standard
input is its lifeline: a pipe whose other end the service's processes hold. When the last of them is gone the keeper
stops the engine and ends. SIGTERM and SIGINT do the same, SIGUSR1 restarts the engine. `<data>/engine.json` has the
engine's state.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from wrapper.engine.keeper.chroma_child import LOG_FILE, ChromaChild, end_orphan, lock_within
from wrapper.engine.keeper.cleaning import clean, cleaning_is_asked, retry_cleaning
from wrapper.engine.keeper.heartbeat import answers
from wrapper.engine.keeper.index_files import runaway_links
from wrapper.engine.keeper.leftovers import remove_leftovers
from wrapper.engine.keeper.old_log import mend_old_log
from wrapper.engine.keeper.sqlite_tuning import tune_journal, tune_tables
from wrapper.engine.keeper.state import (
    READY,
    STARTING,
    STOPPED,
    UNRESPONSIVE,
    EngineState,
    write_state,
)

KEEPER_LOCK_FILE = "keeper.lock"
LIFELINE = 0
MISSES = 3  # missed heartbeats, at least, before the engine counts as hung: the keeper may have been paused
EXIT_OK, EXIT_IN_USE = 0, 75


@dataclass(frozen=True)
class Patience:
    """The times that the keeper waits, in seconds."""

    startup: float = 120.0  # a first start on an older directory migrates it
    heartbeat: float = 2.0
    between_heartbeats: float = 1.0
    between_heartbeats_at_start: float = 0.05
    silence: float = 8.0  # without heartbeats, until the engine counts as hung
    hung_grace: float = 2.0
    restart_grace: float = 10.0
    stop_grace: float = 30.0
    predecessor: float = 45.0  # a keeper whose service is gone may need its stop_grace
    stable: float = 30.0  # a run this long makes the next restart immediate again
    backoff_limit: float = 30.0


class Keeper:
    """The engine's life under one data directory. `run()` returns when it is over, and no process is left."""

    def __init__(
        self,
        data_dir: Path,
        *,
        patience: Patience,
        python: str,
        service_port: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._data_dir, self._patience, self._python = data_dir, patience, python
        self._service_port = service_port
        self._clock, self._now = clock, now
        self._child: ChromaChild | None = None
        self._state = EngineState(state=STARTING, keeper_pid=os.getpid())
        self._published: EngineState | None = None
        self._stopping = self._restart_asked = False
        self._started_at = self._answered_at = self._start_due_at = 0.0
        self._starts = self._failures = self._misses = 0
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        self._listen()
        try:
            orphan = end_orphan(self._data_dir, grace_seconds=self._patience.restart_grace, clock=self._clock)
        except TimeoutError as exc:
            self._log(str(exc))
            return EXIT_IN_USE
        if orphan is not None:
            self._log(f"ended engine {orphan}, left by an earlier keeper")
        with contextlib.suppress(OSError):
            retry_cleaning(self._data_dir)
        try:
            while not self._stopping:
                self._step()
                self._rest()
        finally:
            # Asked once more it would die of that, when Python has taken its handlers down.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
                signal.signal(number, signal.SIG_IGN)
            self._stop()
        return EXIT_OK

    def _listen(self) -> None:
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stopping = True
        elif number == signal.SIGUSR1:
            self._restart_asked = True

    def _step(self) -> None:
        if self._child is None:
            if self._clock() >= self._start_due_at:
                self._start()
            return
        exit_code = self._child.exit_code()
        if exit_code is not None:
            self._child_is_gone(f"engine {self._child.pid} died with code {exit_code}")
        elif self._restart_asked:
            self._restart_asked = False
            if self._state.state != STARTING:  # several workers asked for the restart that is under way
                self._restart("a restart was asked for", self._patience.restart_grace)
        elif runaway := runaway_links(self._data_dir):
            self._end_runaway(runaway)
        elif self._state.state == READY and cleaning_is_asked(self._data_dir):
            self._end_for_cleaning(self._child)
        else:
            self._listen_for_heartbeat(self._child)

    def _end_runaway(self, files: list[Path]) -> None:
        """End an engine whose files run away, and remove them before they fill the disk.

        An index without its files is broken, which is noticed, and it is rebuilt.
        """
        self._restart(f"index files run away: {', '.join(str(file) for file in files)}", grace_seconds=0.0)
        for file in files:
            with contextlib.suppress(OSError):
                file.unlink()

    def _end_for_cleaning(self, child: ChromaChild) -> None:
        """Stop a sound engine. Its files are cleaned before it is started again, which is at once."""
        self._publish(state=UNRESPONSIVE)
        self._log(f"stopped the engine to clean its files: code {child.stop(grace_seconds=self._patience.stop_grace)}")
        self._child = None
        self._start_due_at = self._clock()
        self._publish(url="", pid=None, pid_started=None)

    def _is_ending(self) -> bool:
        """Return whether the keeper is to end: asked while it does something that takes long."""
        readable, _, _ = select.select([LIFELINE], [], [], 0)
        if readable and not os.read(LIFELINE, 512):
            self._stopping = True
        return self._stopping

    def _listen_for_heartbeat(self, child: ChromaChild) -> None:
        interrupts = (LIFELINE, self._wake_reader)
        answer = answers(child.port, timeout_seconds=self._patience.heartbeat, interrupts=interrupts)
        now = self._clock()
        if answer:
            self._answered_at, self._misses = now, 0
            if now - self._started_at > self._patience.stable:
                self._failures = 0
            if self._state.state == STARTING:
                tune_tables(self._data_dir, self._log)
            self._publish(state=READY)
        elif answer is False and self._state.state == STARTING:
            if now - self._started_at > self._patience.startup:
                self._restart("the engine did not start in time", self._patience.hung_grace)
        elif answer is False:
            self._misses += 1
            self._publish(state=UNRESPONSIVE)
            if self._misses >= MISSES and now - self._answered_at > self._patience.silence:
                self._restart("the engine does not answer", self._patience.hung_grace)

    def _start(self) -> None:
        with contextlib.suppress(OSError):
            tune_journal(self._data_dir, self._log)
            remove_leftovers(self._data_dir, self._log)
            mend_old_log(self._data_dir, self._log)
            clean(self._data_dir, self._log, self._is_ending)
            if self._stopping:
                return
        self._started_at = self._answered_at = self._clock()
        self._misses = 0
        try:
            self._child = ChromaChild(self._data_dir, python=self._python, service_port=self._service_port)
        except OSError as exc:
            self._child_is_gone(f"the engine could not be started: {exc}")
            return
        self._publish(
            state=STARTING,
            url=self._child.url,
            pid=self._child.pid,
            pid_started=self._child.pid_started,
            restarts=self._starts,
        )
        self._starts += 1

    def _restart(self, reason: str, grace_seconds: float) -> None:
        self._publish(state=UNRESPONSIVE)
        exit_code = self._child.stop(grace_seconds=grace_seconds) if self._child else None
        self._child_is_gone(f"{reason}: ended with code {exit_code}")

    def _child_is_gone(self, reason: str) -> None:
        """Plan the next start: at once after a first death, then later and later while the engine keeps dying young."""
        self._child = None
        self._failures += 1
        delay = 0.0 if self._failures == 1 else min(self._patience.backoff_limit, 0.25 * 2.0**self._failures)
        self._start_due_at = self._clock() + delay
        self._log(f"{reason}, next start in {delay:.1f} s")
        # The engine's port may be given to somebody else.
        self._publish(state=UNRESPONSIVE, url="", pid=None, pid_started=None)

    def _stop(self) -> None:
        if self._child is not None:
            self._publish(state=UNRESPONSIVE)
            exit_code = self._child.stop(grace_seconds=self._patience.stop_grace)
            self._log(f"stopped the engine: it ended with code {exit_code}")
        self._publish(state=STOPPED, url="", pid=None, pid_started=None)

    def _rest(self) -> None:
        """Wait until something happens, at most until the next heartbeat is due."""
        patience = self._patience
        pause = patience.between_heartbeats_at_start if self._state.state == STARTING else patience.between_heartbeats
        if self._child is None:
            pause = max(0.0, min(pause, self._start_due_at - self._clock()))
        readable, _, _ = select.select([LIFELINE, self._wake_reader], [], [], 0 if self._stopping else pause)
        if self._wake_reader in readable:
            os.read(self._wake_reader, 512)
        if LIFELINE in readable and not os.read(LIFELINE, 512):
            self._stopping = True

    def _publish(self, **changes: object) -> None:
        """Write what changed.

        A full disk must not end the engine: a state that could not be written is tried again at each step.
        """
        state = replace(self._state, **changes)  # type: ignore[arg-type]
        if state.state != self._state.state or not state.since:
            state = replace(state, since=self._now().isoformat(timespec="milliseconds"))
        self._state = state
        if state != self._published:
            with contextlib.suppress(OSError):
                write_state(self._data_dir, state)
                self._published = state

    def _log(self, sentence: str) -> None:
        line = f"{self._now().isoformat(timespec='milliseconds')} keeper: {sentence}\n"
        with contextlib.suppress(OSError), (self._data_dir / LOG_FILE).open("a") as log:
            log.write(line)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="wrapper.engine.keeper")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--startup-timeout-seconds", type=float, default=Patience.startup)
    parser.add_argument("--service-port", type=int)
    options = parser.parse_args(arguments)
    data_dir = options.data_dir.resolve()
    data_dir.mkdir(parents=True, exist_ok=True)
    patience = Patience(startup=options.startup_timeout_seconds)
    lock = os.open(data_dir / KEEPER_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not lock_within(lock, patience.predecessor, clock=time.monotonic, sleep=time.sleep):
        print(f"another keeper is using {data_dir}", file=sys.stderr)
        return EXIT_IN_USE
    return Keeper(data_dir, patience=patience, python=sys.executable, service_port=options.service_port).run()
