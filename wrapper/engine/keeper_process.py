"""The service's side of the keeper: start it, know that it lives, stop it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import structlog

import wrapper

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class KeeperProcess:
    """A started keeper and the write end of its lifeline. Forked processes hold the lifeline too, programs they start
    do not: the keeper and its engine end when the last process of the service is gone, however it went."""

    process: subprocess.Popen[bytes]
    lifeline: int | None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Asked by the process that started it; a forked one cannot know."""
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
    data_dir: Path, *, python: str = sys.executable, startup_timeout_seconds: float | None = None
) -> KeeperProcess:
    """Start the keeper of `data_dir`; the caller owns the directory (`ownership.acquire`). Returns at once: the
    engine's state says when it is ready."""
    command = [python, "-m", "wrapper.engine.keeper", "--data-dir", str(data_dir)]
    if startup_timeout_seconds is not None:
        command += ["--startup-timeout-seconds", str(startup_timeout_seconds)]
    root = str(Path(wrapper.__file__).resolve().parent.parent)
    search_path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            command,
            stdin=reader,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search_path},
            start_new_session=True,  # Ctrl-C at the terminal is for the service, which then stops the keeper
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    log.info("engine keeper started", pid=process.pid, data_dir=str(data_dir))
    return KeeperProcess(process, writer)
