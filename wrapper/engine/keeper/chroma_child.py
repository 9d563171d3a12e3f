"""One run of the embedded engine: its files in the data directory, its process, its end.

Uses the standard library only, because the keeper imports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from wrapper.engine.keeper import chroma_main
from wrapper.engine.keeper.directory import CHROMA_DIR
from wrapper.engine.keeper.state import start_time

LOCK_FILE = "engine.lock"
LOG_FILE = "engine.log"
CONFIG_FILE = "engine-config.yaml"
MAX_LOG_BYTES = 10 * 1024 * 1024
# More than this service takes as one body (100 MB), so that no single document is too large for the engine.
MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
# Chroma merges CHROMA_* into its configuration, and would send traces to wherever OTEL_* points.
DROPPED_ENVIRONMENT = ("CHROMA_", "OTEL_")
POLL_SECONDS = 0.02


class ChromaChild:
    """A started Chroma server, which answers on `url` some tenths of a second later."""

    def __init__(self, data_dir: Path, *, python: str, service_port: int | None = None) -> None:
        self.port = free_port(service_port)
        config = _write_config(data_dir, self.port)
        with _open_log(data_dir) as log:
            self._process = subprocess.Popen(
                [python, "-P", chroma_main.__file__, str(data_dir / LOCK_FILE), str(os.getpid()), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # Ctrl-C at the terminal is for the service, which then stops the engine
            )
        self.pid = self._process.pid
        self.pid_started = start_time(self.pid)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def exit_code(self) -> int | None:
        """Return the exit code, None while the process runs; a negative code is the signal that ended it."""
        return self._process.poll()

    def stop(self, *, grace_seconds: float) -> int:
        """Send SIGTERM, then SIGKILL after `grace_seconds`, and return the exit code.

        A kill in the middle of a save can break an index, hence the time to finish. A stopped process notices nothing
        until it is told to continue.
        """
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)
        try:
            return self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def end_orphan(
    data_dir: Path, *, grace_seconds: float, clock: Callable[[], float], sleep: Callable[[float], None] = time.sleep
) -> int | None:
    """End an engine that outlived its keeper. Return its process id, None when there was none.

    The holder of the engine's lock is the engine, and the process id in the file is its own. Raises TimeoutError when
    it is still there after SIGKILL, or is not ours to end (another container's).
    """
    descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if lock_within(descriptor, 0.0, clock=clock, sleep=sleep):
            return None
        pid = _engine_pid(descriptor)
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal_number)
                    os.kill(pid, signal.SIGCONT)
            if lock_within(descriptor, grace_seconds, clock=clock, sleep=sleep):
                return pid
        raise TimeoutError(f"another engine is using {data_dir / CHROMA_DIR}")
    finally:
        os.close(descriptor)


def lock_within(descriptor: int, seconds: float, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> bool:
    """Return whether the exclusive lock on `descriptor` could be taken within `seconds`."""
    deadline = clock() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if clock() >= deadline:
                return False
            sleep(POLL_SECONDS)


def _engine_pid(descriptor: int) -> int | None:
    try:
        pid = int(os.pread(descriptor, 32, 0))
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (ValueError, OSError):
        return None
    return pid if Path(chroma_main.__file__).name.encode() in command else None


def free_port(service_port: int | None) -> int:
    """Return a port that nobody has, other than the service's own, which the service may not have taken yet."""
    with socket.socket() as probe, socket.socket() as other:
        for each in (probe, other):  # both at once: the two are never the same
            each.bind(("127.0.0.1", 0))
        port, instead = (int(each.getsockname()[1]) for each in (probe, other))
    return instead if port == service_port else port


def _write_config(data_dir: Path, port: int) -> Path:
    """Write Chroma's configuration file and return its path.

    Chroma reads YAML, of which JSON is a part. It is a file and not options, because only a file carries the body
    limit; it also leaves out the banner and the tracing of every request.
    """
    path = data_dir / CONFIG_FILE
    settings = {
        "persist_path": str(data_dir / CHROMA_DIR),
        "listen_address": "127.0.0.1",
        "port": port,
        "max_payload_size_bytes": MAX_PAYLOAD_BYTES,
    }
    path.write_text(json.dumps(settings))
    return path


def _open_log(data_dir: Path) -> BinaryIO:
    path = data_dir / LOG_FILE
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > MAX_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED_ENVIRONMENT)}
    return {**kept, "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1"}
