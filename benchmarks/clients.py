"""Clients that cost as little as possible: prepared requests over kept connections, one process for each client.

The time is taken from the first byte sent to the decoded answer; everything else is done before or after. Both sides of
a comparison are measured by this same code.
"""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, zip_longest
from typing import Any
from urllib.parse import urlsplit

import orjson

TIMEOUT_SECONDS = 120.0
START_SECONDS = 60.0

Work = Sequence[bytes]
"""The requests of one piece of work, made one after the other."""


class RefusedError(Exception):
    """A service refused a request, so the measurements would mean nothing."""


class Connection:
    """One kept HTTP/1.1 connection. It understands the answers of both services, which have a Content-Length."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self._socket = socket.create_connection((address.hostname, address.port or 80), TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", buffering=1 << 16)

    def call(self, request: bytes) -> Any:
        """Send a request and return the decoded answer. Raises RefusedError when its status is not 200, 201 or 202."""
        self._socket.sendall(request)
        status = self._answers.readline()
        length = None
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if length is None:
            raise RefusedError(f"The answer has no length: {status!r}")
        body = self._answers.read(length)
        if status.split(b" ", 2)[1] not in (b"200", b"201", b"202"):
            raise RefusedError(f"{status.decode().strip()}: {body[:300].decode(errors='replace')}")
        return orjson.loads(body)

    def do(self, work: Work) -> tuple[list[Any], float]:
        """Do a piece of work and return (the answers, the seconds they took together)."""
        started = time.perf_counter()
        answers = [self.call(request) for request in work]
        return answers, time.perf_counter() - started

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


@dataclass(frozen=True, slots=True)
class Together:
    """The work of several clients at the same time.

    It has the seconds of each piece of work, by client; the seconds from the first start to the last end; the number of
    answers that name each plan.
    """

    by_client: list[list[float]]
    elapsed_seconds: float
    plans: Counter[str]

    @property
    def latencies_seconds(self) -> list[float]:
        return [seconds for client in self.by_client for seconds in client]


def plans_of(answers: Sequence[Any]) -> Iterator[str]:
    """Return the plans that answers name. This service says how it found an answer, Chroma does not."""
    return (answer["plan"] for answer in answers if isinstance(answer, dict) and "plan" in answer)


def request(method: str, target: str, body: Any = None) -> bytes:
    """Return a request as it goes over the wire. The services ignore the host's name."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Accept: application/json"]
    content = b""
    if body is not None:
        content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def do_together(
    url: str | Sequence[str],
    works: Sequence[Sequence[Work]],
    seconds: float | None = None,
    *,
    pauses: Sequence[float] = (),
) -> Together:
    """Run one client process for each of `works`. It goes through its own once, or again and again for `seconds`; the
    first clients begin a piece of work each so many seconds, their `pauses`, the others at once. `url` may have one for
    each client."""
    urls = [url] * len(works) if isinstance(url, str) else url
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(works))
    clients = []
    for (own, pause), its_url in zip(zip_longest(works, pauses, fillvalue=0.0), urls, strict=True):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_client, args=(its_url, own, seconds, pause, start, sender), daemon=True)
        process.start()
        sender.close()
        clients.append((process, receiver))
    outcomes = []
    for process, receiver in clients:
        try:
            outcomes.append(receiver.recv())
        except EOFError:
            outcomes.append(f"a client ended early, with code {process.exitcode}")
        process.join()
    for outcome in outcomes:
        if isinstance(outcome, str):
            raise RefusedError(outcome)
    return Together(
        [latencies for _, _, latencies, _ in outcomes],
        max(ended for _, ended, _, _ in outcomes) - min(started for started, *_ in outcomes),
        sum((plans for *_, plans in outcomes), Counter()),
    )


def _client(url: str, works: Sequence[Work], seconds: float | None, pause: float, start: Any, sender: Any) -> None:
    try:
        connection = Connection(url)
        start.wait(START_SECONDS)
        started = time.perf_counter()
        latencies: list[float] = []
        plans: Counter[str] = Counter()
        for work in works if seconds is None else cycle(works):
            if pause:
                time.sleep(max(0.0, started + len(latencies) * pause - time.perf_counter()))
            if seconds is not None and time.perf_counter() - started >= seconds:
                break
            answers, taken = connection.do(work)
            latencies.append(taken)
            plans.update(plans_of(answers))
        sender.send((started, time.perf_counter(), latencies, plans))
    except Exception as error:
        start.abort()
        sender.send(f"{type(error).__name__}: {error}")
