"""The two servers that are killed: this service, and a stock `chroma run`."""

from __future__ import annotations

import signal
from pathlib import Path

from interfaces.commands.scratch_service import processes_in
from tests.durability.processes import alive, kill
from tests.support.chroma import ChromaServer
from tests.support.live import LiveService, eventually, start_service


class Ours:
    name = "rag-wrapper"

    def __init__(self, directory: Path, **settings: object) -> None:
        self._directory, self._settings = directory, settings
        self._service: LiveService | None = None

    @property
    def url(self) -> str:
        assert self._service is not None
        return self._service.url

    def start(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._service = start_service(self._directory, access="open", **self._settings)

    def kill(self) -> None:
        """Kill all processes of the service at once."""
        assert self._service is not None
        pids = processes_in(self._service.data_dir)
        kill(self._service.process.pid, *pids)
        self._service.process.wait(30)
        eventually(lambda: not any(alive(pid) for pid in pids))

    def stop(self) -> None:
        if self._service is not None:
            self._service.stop()


class Stock:
    name = "chroma run"

    def __init__(self, directory: Path) -> None:
        self._server = ChromaServer(directory)

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.stop(signal.SIGKILL)

    def stop(self) -> None:
        self._server.stop(signal.SIGKILL)
