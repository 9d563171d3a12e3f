"""Run a real service: `rag-wrapper serve` as a process, on a directory and a port of its own.

Everything started here ends here: `stop()` fails when the service leaves a process behind.
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import chromadb
import orjson
import pytest
import requests
from chromadb.config import Settings

from interfaces.commands.scratch_service import command, processes_in
from tests.support.contract import CheckedSession, Contract
from wrapper.engine.keeper.chroma_child import LOG_FILE
from wrapper.engine.keeper.state import read_state

T = TypeVar("T")
PATIENCE_SECONDS = 120.0
"""How long a test waits for what must come: on a busy machine late is not wrong."""
LIMITS_SECONDS = (0.3, 1.0, 5.0, PATIENCE_SECONDS)
"""The limits of tests in which something is cut: the later ones for a machine that has no time for the test."""
POLL_SECONDS = (0.02, 0.05)
"""How soon a condition is looked at again: the longer it was waited for, the later. To look costs processor time."""
PORT_ATTEMPTS, PORT_TAKEN = 3, "in use by another program"
FIRST_PORT, PORTS_OF_A_PROCESS = 10_000, 2_500
ORIGIN = "https://console.example"
"""The one origin that the app of `tests/conftest.py` allows."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    json: Any


class OneConnection:
    """An adapter with one connection that is never reopened: when the server closes or resets it, the next request
    fails."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        self._connection.connect()
        self._connection.auto_open = 0

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Return the answer, checked against openapi.yaml. A body of bytes is sent as it is, an iterator in chunks,
        anything else as JSON; headers are named with underscores."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        if isinstance(body, dict | list):
            body = orjson.dumps(body)
            named = {"Content-Type": "application/json", **named}
        self._connection.request(method, path, body, named)
        response = self._connection.getresponse()
        content = response.read()
        found = dict(response.getheaders())
        Contract.load().check_response(method, path.partition("?")[0], response.status, found, content)
        is_json = found.get("Content-Type", "").startswith("application/json")
        return Answer(response.status, found, orjson.loads(content) if content and is_json else None)

    @property
    def local_port(self) -> int:
        """This end's port, by which the kernel knows the connection."""
        assert self._connection.sock is not None
        port: int = self._connection.sock.getsockname()[1]
        return port

    def close(self) -> None:
        self._connection.close()


@dataclass
class LiveService:
    """A service that runs until `stop()`. `url` has no slash at its end; its output is in `log`."""

    url: str
    data_dir: Path
    process: subprocess.Popen[bytes]
    log: Path
    authority: Path | None = None
    """The file of the authority that signed the service's certificate, when it speaks TLS."""

    def session(self) -> CheckedSession:
        """Return a session with one kept-alive connection that checks every answer."""
        session = CheckedSession()
        if self.authority is not None:
            session.verify = str(self.authority)
            session.trust_env = False  # a variable of the environment may name other authorities
        return session

    @contextmanager
    def one_connection(self) -> Iterator[OneConnection]:
        connection = OneConnection(self.port)
        try:
            yield connection
        finally:
            connection.close()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def engine_pid(self) -> int | None:
        """Return the process id of the engine child, or None while there is none."""
        return read_state(self.data_dir).pid

    def wait_until_healthy(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Return when `/health` says healthy, or that the disk is too full; fail when it ends or is late."""
        eventually(self._is_healthy, seconds=seconds, complaint=self.tail)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the service and return its exit code; fail when one of its processes lives on."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE_SECONDS)
            eventually(lambda: not processes_in(self.data_dir), complaint=self.tail)
        finally:
            for pid in processes_in(self.data_dir):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return code

    def running_in(self, lane: str, **headers: str) -> float:
        """Return how many requests are in a lane now."""
        told = requests.get(
            f"{self.url}/metrics", headers=headers, timeout=PATIENCE_SECONDS, verify=self.authority
        ).text
        lines = [line for line in told.splitlines() if line.startswith("rag_lane_running") and f'"{lane}"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def _is_healthy(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the service ended with {self.process.returncode}:\n{self.tail()}")
        try:
            answer = requests.get(f"{self.url}/health", timeout=5, verify=self.authority)
        except requests.RequestException:
            return False
        return answer.status_code == 200 and (
            answer.json()["status"] == "healthy" or "message" in answer.json()["disk"]
        )


def start_service(directory: Path, **settings: object) -> LiveService:
    """Start a service in `directory` and wait until it is healthy. `settings` are RAG_ variables in lower case:
    `workers=2`; `{port}` in them is the service's port, and the authority of a `tls_cert` is in `authority.pem` beside
    it. A second start in the same directory finds the first one's data."""
    for attempt in range(PORT_ATTEMPTS):
        service = spawn_service(directory, settings)
        try:
            service.wait_until_healthy()
            return service
        except AssertionError:
            # Another program may have taken the port after we found it free and before the service bound it.
            taken = PORT_TAKEN in service.tail()
            service.stop(signal.SIGKILL)
            if not taken or attempt == PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def refused_start(*arguments: str, environ: Mapping[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Return what became of a `rag-wrapper serve` that has another reason to end than a taken port."""
    options |= {"capture_output": True, "text": True, "timeout": PATIENCE_SECONDS}
    for _ in range(PORT_ATTEMPTS):
        with_port = {"RAG_PORT": str(free_port()), **environ}
        done = subprocess.run(command("serve", *arguments), env=with_port, check=False, **options)
        if PORT_TAKEN not in done.stderr:
            break
    return done


@contextmanager
def live_service(directory: Path, **settings: object) -> Iterator[LiveService]:
    """Run a service for the length of the block."""
    service = start_service(directory, **settings)
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def chroma_client(data_dir: Path) -> Iterator[chromadb.api.ClientAPI]:
    """Return Chroma's own client, connected to the engine of a data directory as any other program might be."""
    url = read_state(data_dir).url
    assert url, f"The engine is away: {(data_dir / LOG_FILE).read_text()[-2000:]}"
    with chroma_client_at(url) as client:
        yield client


@contextmanager
def chroma_client_at(url: str) -> Iterator[chromadb.api.ClientAPI]:
    host, _, port = url.removeprefix("http://").partition(":")
    with chromadb.HttpClient(host=host, port=int(port), settings=Settings(anonymized_telemetry=False)) as client:
        try:
            yield client
        finally:
            # Chroma leaves its connections to the garbage collector.
            client._server._session.close()
            client._admin_client._server._session.close()


@contextmanager
def no_thread_begins() -> Iterator[None]:
    """Let the system refuse this process any further thread."""

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "_start_new_thread", fail)
        yield


def eventually(
    condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, complaint: Callable[[], str] = str
) -> T:
    """Return what `condition` returned when it was first true; fail after the deadline."""
    begun = time.monotonic()
    while not (outcome := condition()):
        waited = time.monotonic() - begun
        assert waited < seconds, f"not within {seconds} seconds\n{complaint()}"
        soonest, latest = POLL_SECONDS
        time.sleep(min(latest, max(soonest, waited / 10)))
    return outcome


def free_port() -> int:
    """Return a port on which nobody listens. It is below those that the system gives to outgoing connections, and in a
    part of them that no other process of this run takes from, so that it is still free when it is bound."""
    for _ in range(PORTS_OF_A_PROCESS):
        port = next(_ports)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


def _own_ports() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST_PORT + worker % 8 * PORTS_OF_A_PROCESS
    ports = range(first, first + PORTS_OF_A_PROCESS)
    begin = os.getpid() % PORTS_OF_A_PROCESS  # runs beside this one begin elsewhere
    return cycle([*ports[begin:], *ports[:begin]])


_ports = _own_ports()


def spawn_service(directory: Path, settings: Mapping[str, object]) -> LiveService:
    """Return a service that has just been started and may not answer yet."""
    port = int(str(settings.get("port", free_port())))
    data_dir, log = directory / "data", directory / "service.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    environ |= {"RAG_PORT": str(port), "RAG_DATA_DIR": str(data_dir), "RAG_DISK_FLOOR_MB": "1"}
    environ |= {f"RAG_{name.upper()}": str(value).replace("{port}", str(port)) for name, value in settings.items()}
    with log.open("ab") as output:
        process = subprocess.Popen(
            command("serve"),
            env=environ,
            cwd=directory,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    cert = settings.get("tls_cert")
    scheme, authority = (
        ("http", None) if cert is None else ("https", (directory / str(cert)).with_name("authority.pem"))
    )
    return LiveService(f"{scheme}://127.0.0.1:{port}", data_dir, process, log, authority)
