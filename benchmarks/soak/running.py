"""The service under load: started as a user would, killed in parts or as a whole, and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import requests

from interfaces.commands.scratch_service import command, processes_in
from wrapper.engine.keeper.state import read_state

HEALTHY_SECONDS = 180.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.2


class RunningService:
    """A service on a directory of its own, with two workers, the local model, and a chat model at `chat_url`."""

    def __init__(self, directory: Path, chat_url: str) -> None:
        self.data_dir = directory / "data"
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")} | {
            "RAG_PORT": str(port),
            "RAG_DATA_DIR": str(self.data_dir),
            "RAG_WORKERS": "2",
            "RAG_CHAT_PROVIDER": "openai",
            "RAG_CHAT_URL": f"{chat_url}/v1",
            "RAG_CHAT_MODEL": "soak",
            "RAG_LOG_LEVEL": "warning",
            "RAG_EMBEDDING_CACHE_SECONDS": "300",  # what is kept of questions is full before figures count
        }

    def __enter__(self) -> RunningService:
        self._start()
        self.wait_until_healthy()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self._kill_all()

    def kill(self, what: str) -> None:
        """Kill a worker, the engine, or everything, and return when the service is healthy again."""
        if what == "service":
            self._kill_all()
            self._process.wait()
            self._start()
        elif what == "engine":
            self._kill(read_state(self.data_dir).pid)
        else:
            self._kill(max(self._workers(), default=None))
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Raise AssertionError with the end of the log when it is not healthy in time."""
        deadline = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < deadline:
            with suppress(requests.RequestException, ValueError):
                if requests.get(f"{self.url}/health", timeout=5).json().get("status") == "healthy":
                    return
            time.sleep(POLL_SECONDS)
        log = (self._directory / "service.log").read_text(errors="replace").splitlines()
        raise AssertionError("the service is not healthy:\n" + "\n".join(log[-30:]))

    def pids(self) -> list[int]:
        return processes_in(self.data_dir)

    def _start(self) -> None:
        with (self._directory / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                command("serve"),
                env=self._environ,
                cwd=self._directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _workers(self) -> list[int]:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [
            pid
            for pid in map(int, children)
            if b"wrapper.engine.keeper" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    def _kill_all(self) -> None:
        for pid in self.pids():
            self._kill(pid)

    @staticmethod
    def _kill(pid: int | None) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
