"""A child process that answers questions, each within a limit of time, and is replaced when it has died or hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

import orjson
import structlog

from retrieval.workers.messages import read_message, write_messages
from retrieval.workers.stopping import CAN_STOP, await_answer
from schemas.errors import UnavailableError
from schemas.giving_way import Turn
from schemas.threads import begin, begin_thread

log = structlog.get_logger(__name__)

IDLE_SECONDS = 120.0
"""How long a process is kept without work. It holds models or parsers in memory and takes a while to start."""


class WorkerEndedError(UnavailableError):
    """The process ended, or was closed, before it had answered."""

    code = "background_helper_ended"


class WorkerTimeoutError(WorkerEndedError):
    """The process took too long, and was ended."""


@dataclass(eq=False)
class WorkerProcess:
    """`python` with these arguments, started with the first question; threads wait for their turn.

    `env`, by default that of this process, and `cwd` are its own, and so is its session where it `is_apart`, since
    Ctrl-C is for whoever asks; what it writes to its standard error is logged otherwise. `name` is what it is called in
    sentences. `clock` returns seconds. While the service answers questions, the process is stopped now and then.
    """

    name: str
    arguments: Sequence[str]
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    is_apart: bool = False
    clock: Callable[[], float] = time.monotonic
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _owner: int = field(default=0, init=False)
    _opening: bytes = field(default=b"", init=False)
    _used_at: float = field(default=0.0, init=False)
    _has_answered: bool = field(default=False, init=False)
    _gives_way: Turn = field(default_factory=Turn, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def pid(self) -> int | None:
        """Return the process's id, None while there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def ask(
        self, question: Mapping[str, Any], content: bytes = b"", *, seconds: float, opening: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a question of JSON and bytes, which is of the same kind. The process is told `opening`
        first, and one that was told another is replaced.

        Raises WorkerTimeoutError when the answer takes longer, and WorkerEndedError; there is no process then.
        """
        with self._turn:
            is_late = threading.Event()

            def end() -> None:
                is_late.set()
                if (process := self._process) is not None:
                    process.kill()

            watchdog = threading.Timer(seconds, end)
            try:
                process = self._running(opening)
                begin(watchdog)
                assert process.stdin is not None
                assert process.stdout is not None
                write_messages(process.stdin, orjson.dumps(question), content)
                if self._has_answered and CAN_STOP:  # before that, it may not have begun to notice who is gone
                    await_answer(process.stdout, self._gives_way, self._send)
                answer, more = read_message(process.stdout), read_message(process.stdout)
                if answer is None or more is None:
                    raise EOFError
                self._has_answered = True
            except (OSError, EOFError) as error:
                self._end()
                if is_late.is_set():
                    raise WorkerTimeoutError(f"{self.name} took more than {seconds:g} s") from error
                raise WorkerEndedError(f"{self.name} ended") from error
            finally:
                watchdog.cancel()
                self._used_at = self.clock()
        return orjson.loads(answer), more

    def rest(self) -> None:
        """End the process when it was not needed for a while."""
        if self._process is not None and self._turn.acquire(blocking=False):
            try:
                if self.clock() - self._used_at >= IDLE_SECONDS:
                    self._end()
            finally:
                self._turn.release()

    def close(self) -> None:
        """End the process at once, whatever it is doing; there is no other one afterwards."""
        self._is_closed = True
        process = self._process
        if process is not None and self._owner == os.getpid():
            process.kill()
        with self._turn:
            self._end()

    def _running(self, opening: bytes) -> subprocess.Popen[bytes]:
        """Return this process's own child. That of a parent, which a fork has inherited, is left to the parent."""
        if self._process is not None and (
            self._owner != os.getpid() or self._opening != opening or self._process.poll() is not None
        ):
            self._end()
        if self._is_closed:
            raise EOFError
        if self._process is None:
            self._process = process = subprocess.Popen(
                [sys.executable, *self.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self.is_apart else subprocess.PIPE,
                cwd=self.cwd,
                env=self.env,
                start_new_session=self.is_apart,
            )
            self._owner, self._opening, self._has_answered = os.getpid(), opening, False
            if process.stderr is not None:
                begin_thread("worker-lines", self._log_lines, process.stderr)
            if opening:
                assert process.stdin is not None
                write_messages(process.stdin, opening)
        return self._process

    def _send(self, number: int) -> None:
        """Send a signal to the process and, where it is apart, to those that it began."""
        process = self._process
        if process is not None and process.poll() is None:
            (os.killpg if self.is_apart else os.kill)(process.pid, number)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._owner == os.getpid():
            if self.is_apart:  # what it began may stand still, too
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()

    def _log_lines(self, said: IO[bytes]) -> None:
        with suppress(OSError, ValueError), said:
            for line in said:
                log.warning(f"{self.name} says", line=line.decode(errors="replace").rstrip())
