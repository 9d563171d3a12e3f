"""Runs the service on a directory and a port of its own, started and stopped as a user would."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from providers.rag_wrapper.client import WrapperClient
from schemas.errors import RagError, UnavailableError

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ScratchService:
    """A running service. Everything it writes is in `directory`, its output in `service.log`."""

    url: str
    directory: Path
    environ: dict[str, str]

    @property
    def log_tail(self) -> str:
        """Return the last lines of the service's output."""
        lines = (self.directory / "service.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-30:])


def command(*arguments: str) -> list[str]:
    """Return the words of a `rag-wrapper` command of the installation that runs this."""
    return [str(Path(sys.executable).with_name("rag-wrapper")), *arguments]


@contextmanager
def scratch_service(
    directory: Path, *, wait: bool = True, program: str | None = None, **settings: str
) -> Iterator[ScratchService]:
    """Run the service in `directory` until the block ends; `settings` are RAG_ variables in lower case, and `program`
    is the command of another installation than this.

    The caller's own variables are not passed on: the service must not touch the caller's data. Raises UnavailableError
    when it is not healthy in time, unless the caller does the waiting; its processes are gone afterwards.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    environ |= {"RAG_HOST": "127.0.0.1", "RAG_PORT": str(port), "RAG_DATA_DIR": str(directory / "data")}
    environ |= {f"RAG_{name.upper()}": text for name, text in settings.items()}
    service = ScratchService(f"http://127.0.0.1:{port}", directory, environ)
    with (directory / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "serve"] if program else command("serve"),
            env=environ,
            cwd=directory,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        if wait:
            _wait_until_healthy(service, process)
        yield service
    finally:
        _stop(process, directory)


def processes_in(directory: Path) -> list[int]:
    """Return the processes, other than this one, whose command line or environment names `directory`; none where the
    system has no /proc."""
    needle = os.fsencode(directory)
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            names_it = needle in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue  # gone meanwhile, or another user's
        if names_it and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def _wait_until_healthy(service: ScratchService, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    with closing(WrapperClient.at(service.url, timeout_seconds=5.0)) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise UnavailableError(f"The service stopped with exit code {process.returncode}:\n{service.log_tail}")
            with suppress(RagError):
                if client.health().get("status") == "healthy":
                    return
            time.sleep(_POLL_SECONDS)
    raise UnavailableError(f"The service was not healthy within {START_SECONDS:.0f} seconds:\n{service.log_tail}")


def _stop(process: subprocess.Popen[bytes], directory: Path) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if left := processes_in(directory):
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while processes_in(directory) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        raise UnavailableError(f"The service left processes behind when it was stopped: {left}")
