"""The service's side of the keeper: starting it, knowing that it lives, stopping it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from wrapper.engine.keeper.chroma_child import LOG_FILE
from wrapper.engine.keeper.state import EngineState, EngineStateReader, is_keeper, write_state

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class KeeperProcess:
    """A started keeper and the write end of its lifeline.

    Forked processes hold the lifeline too, programs they start do not. The keeper and its engine end when the last
    process of the service is gone, however it ended.
    """

    process: subprocess.Popen[bytes]
    lifeline: int | None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the keeper runs. Only the process that started it can know, a forked one cannot."""
        return self.process.poll() is None

    def stop(self, timeout_seconds: float = 40.0) -> int | None:
        """Stop engine and keeper and return the keeper's exit code, None when it did not end in time.

        The keeper itself gives the engine 30 seconds to finish.
        """
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None
        self.process.terminate()
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            log.warning("the engine's keeper did not end in time", pid=self.pid, timeout_seconds=timeout_seconds)
            return None


def start_keeper(
    data_dir: Path,
    *,
    python: str = sys.executable,
    startup_timeout_seconds: float | None = None,
    service_port: int | None = None,
) -> KeeperProcess:
    """Start the keeper of `data_dir`, which the caller owns (`data_directory_lock.acquire`), and return at once.

    The engine's state says when the engine is ready. The engine does not take `service_port`, on which the service is
    to listen.
    """
    command = [python, "-m", "wrapper.engine.keeper", "--data-dir", str(data_dir)]
    if startup_timeout_seconds is not None:
        command += ["--startup-timeout-seconds", str(startup_timeout_seconds)]
    if service_port is not None:
        command += ["--service-port", str(service_port)]
    # The state of an earlier run does not hold for this one: its port may be somebody else's by now.
    with contextlib.suppress(OSError):
        write_state(data_dir, EngineState())
    root = str(Path(__file__).resolve().parents[2])
    search_path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    # It has no part in the service's log, which has a format that the standard library alone does not write.
    said = os.open(data_dir / LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        process = subprocess.Popen(
            command,
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**_without_settings(os.environ), "PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C at the terminal is for the service, which then stops the keeper
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
        os.close(said)
    log.info("engine keeper started", pid=process.pid, data_dir=str(data_dir))
    return KeeperProcess(process, writer)


def _without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the service's settings: keys and secrets are among them, and the engine needs
    none."""
    return {name: value for name, value in environ.items() if not name.startswith("RAG_")}


class KeeperGuard:
    """A guard that starts another keeper when the service's own was killed, in the one process that leads."""

    def __init__(self, data_dir: Path, state: EngineStateReader) -> None:
        self._data_dir, self._state = data_dir, state
        self._replacement: KeeperProcess | None = None

    def check(self) -> None:
        """Start another keeper if the service's own is gone.

        It is cheap enough to be called while the engine is away.
        """
        keeper_pid = self._state.read().keeper_pid
        if keeper_pid is None or is_keeper(keeper_pid):
            return
        if self._replacement is None or not self._replacement.is_alive:
            log.warning("the engine's keeper is gone, starting another", pid=keeper_pid)
            self._replacement = start_keeper(self._data_dir)

    def close(self) -> None:
        """Stop the keeper that was started here, if any."""
        if self._replacement is not None:
            self._replacement.stop()
