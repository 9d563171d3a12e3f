"""Hostile requests to a service as people run it cause no failure and only bounded work, and their memory is freed.

One test sends one shape in growing sizes, or all requests made for one operation or tool of the description; `-k`
chooses among them. Each request has a bound of processor time, which is the same on a busy machine. The whole run (`make
soak`) goes up to a megabyte and looks at `/live` all the while; the short one stops early.
"""

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.durability.processes import resident_mb, workers
from tests.fuzz.hostile_fields import DESCRIBED
from tests.fuzz.hostile_shapes import COLLECTION, LINE_SHAPES, MAX_LINE_BYTES, MCP, SHAPES, Made
from tests.fuzz.live_probe import Probe, probing
from tests.support.costs import slowness
from tests.support.live import PATIENCE_SECONDS, LiveService, eventually, live_service
from tests.support.model_server import model_server

WHOLE = "RAG_SOAK_HOSTILE" in os.environ
MOST = int(os.environ.get("RAG_SOAK_HOSTILE", "4096"))
"""The approximate size in bytes up to which the shapes grow."""
LEAST = 1_024
EVERY = 1 if WHOLE else 50
"""The short run sends one in this many of the requests to an operation."""
CPU_SECONDS = 2.0
"""On the machine of `tests/budget.toml`, whose seconds are others on this one."""
COSTLY = {"letters that become eighteen": 3}
"""Shapes of which NFKC makes many times the text: they may take so many times as long."""
WORKED_SECONDS = 0.03
"""A request that took this much processor time may have left work behind."""
IDLE_LOOKS, IDLE_SHARE = 5, 0.25
"""Workers that take less of a processor from one look to the fifth after it are idle."""
GROWN_MB = 160 if WHOLE else 50
"""The whole run stores 150,000 documents, of which bounded caches keep words, matches and texts."""
ALIKE_MB = 15
"""Workers that have imported the same differ by less."""
TICKS = os.sysconf("SC_CLK_TCK")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@dataclass
class Attacked:
    """A service, its workers, their memory before the first request, and everything observed since."""

    service: LiveService
    probe: Probe | None
    pids: list[int]
    before_mb: dict[int, float]
    sent: int = 0
    busy: Counter[str] = field(default_factory=Counter)
    """The answers 503 with Retry-After, or for want of a chat model, counted by what was sent."""
    slowest: list[tuple[float, str]] = field(default_factory=list)

    @contextmanager
    def judged(self) -> Iterator[list[str]]:
        """Give a list for the faults that a test finds; fail at the end when it is not empty, `/live` was slow
        meanwhile, or a worker ended."""
        found: list[str] = []
        if self.probe:
            self.probe.slow_seconds()
        yield found
        if self.probe and (slow_seconds := self.probe.slow_seconds()):
            found.append(f"/live was slow {len(slow_seconds)} times, at most {max(slow_seconds):.2f} s")
        if sorted(workers(self.service)) != sorted(self.pids):
            found.append("a worker ended")
        if found:
            print("\n".join(["", *found]), flush=True)
        assert not found, "\n".join([f"{len(found)} violations", *found])

    def send(self, made: Made, found: list[str], *others: Made) -> int | None:
        """Return the status of the answer, or None when none came or it took too long.

        Work that the service does by itself now and then may fall into the time of a request. When a request took too
        long, `others`, which should take as long, are sent, and it is no fault when one of them is answered in time.
        """
        shown = f"{made.name}: {made.method} {made.path[:80]}, {len(made.body)} bytes {made.body[:80]!r}"
        self.sent += 1
        before = self.cpu_seconds()
        try:
            answer, said = send(self.service.port, made)
        except (OSError, HTTPException) as error:
            found.append(f"{shown}: no answer: {error!r}")
            return None
        spent = self.cpu_seconds() - before
        self.slowest = sorted([*self.slowest, (round(spent, 2), made.name)], reverse=True)[:20]
        if answer.status == 503 and (answer.getheader("Retry-After") or b'"chat_unavailable"' in said):
            self.busy[made.name] += 1
        elif answer.status >= 500 and answer.status != 501:
            found.append(f"{shown}: answered {answer.status}")
        most = CPU_SECONDS * next((times for shape, times in COSTLY.items() if shape in made.name), 1)
        if spent > most and spent > most * slowness():
            self.wait_until_idle()
            if others:
                return self.send(others[0], found, *others[1:])
            found.append(f"{shown}: took {spent:.1f} s of processor time")
            return None
        if WHOLE and spent > WORKED_SECONDS:
            self.wait_until_idle()
        return answer.status

    def wait_until_idle(self) -> None:
        """Wait until the work that one request left behind, such as indexing its documents, no longer burdens the next
        one."""
        seen: list[tuple[float, float]] = []

        def is_idle() -> bool:
            seen.append((time.monotonic(), self.cpu_seconds()))
            (began, before), (now, after) = seen[-IDLE_LOOKS:][0], seen[-1]
            return len(seen) >= IDLE_LOOKS and after - before < IDLE_SHARE * (now - began)

        eventually(is_idle)

    def cpu_seconds(self) -> float:
        """Return the processor time that the workers have used."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS

    def memory(self) -> str:
        """Return what each worker had before, and has now."""
        return str([f"{self.before_mb[pid]:.0f} MB, {resident_mb(pid):.0f} MB now" for pid in self.pids])

    def grown_mb(self) -> float:
        """Return the growth of the worker that has grown most."""
        return max(resident_mb(pid) - self.before_mb[pid] for pid in self.pids)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory, processes) -> Iterator[Attacked]:
    """A service with two workers, whose memory must be back at the end; a stub embeds the texts, and its time is not
    the service's."""
    with (
        model_server() as models,
        live_service(
            tmp_path_factory.mktemp("hostile"),
            workers=2,
            log_level="error",
            embedding_provider="openai",
            embedding_url=f"{models.url}/v1",
            embedding_model="stub",
            mcp_write="on",
        ) as service,
        probing(service.port) if WHOLE else nullcontext() as probe,
    ):
        _warm_up(service)
        pids = workers(service)
        attacked = Attacked(service, probe, pids, {pid: resident_mb(pid) for pid in pids})
        yield attacked
        print(f"\n{attacked.sent} requests; refused for now (503): {dict(attacked.busy)}; slowest: {attacked.slowest}")
        print(f"memory of the workers: {attacked.memory()}")
        eventually(lambda: attacked.grown_mb() < GROWN_MB, complaint=attacked.memory)


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", [*SHAPES, *LINE_SHAPES])
def test_a_shape_is_answered_within_bounds_however_large_it_grows(attacked, name):
    shape = SHAPES.get(name) or LINE_SHAPES[name]
    end = MOST if name in SHAPES else min(MOST, MAX_LINE_BYTES)
    size = min(LEAST, end) if WHOLE else end
    if WHOLE:
        attacked.wait_until_idle()
    with attacked.judged() as found:
        while True:
            alike = [replace(shape(each), name=f"{name} x {each}") for each in (size, size - 64, size - 128)]
            status = attacked.send(alike[0], found, *alike[1:])
            if status is None or size == end:
                break
            # A shape that is refused stays refused when it is larger, but its refusal has costs too.
            size = min(end, size * (32 if 400 <= status < 500 else 2))


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("operation", DESCRIBED)
def test_an_operation_is_answered_within_bounds_whatever_its_fields_hold(attacked, operation):
    with attacked.judged() as found:
        for made in DESCRIBED[operation]()[::EVERY]:
            attacked.send(made, found, made)


def test_the_same_requests_again_leave_no_more_memory(attacked):
    """The first time fills caches. What grows by requests grows each time."""
    requests = [made for make in DESCRIBED.values() for made in make()[:: 10 * EVERY]]

    def memory_of_all() -> float:
        for made in requests:
            send(attacked.service.port, made)
        attacked.wait_until_idle()
        return sum(map(resident_mb, attacked.pids))

    before = memory_of_all()
    assert memory_of_all() < before + 2 * ALIKE_MB


def send(port: int, made: Made) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.putrequest(made.method, made.path, skip_accept_encoding=True)
        for name, text in {**made.headers, "Content-Length": str(len(made.body))}.items():
            connection.putheader(name, text)
        connection.endheaders(made.body)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def _warm_up(service: LiveService) -> None:
    """Let both workers import everything they import late and read everything they read once."""
    document = {"id": "a", "text": "one two", "metadata": {"n": 1}, "embedding": [0.6, 0.8]}
    with service.session() as session:
        assert session.post(f"{service.url}/collections", json={"name": COLLECTION}).status_code == 201
        added = session.post(f"{service.url}/collections/{COLLECTION}/documents", json={"documents": [document]})
        assert added.status_code == 201

    def asked() -> Iterator[tuple[str, str, Any]]:
        yield "GET", "/openapi.json", {}
        yield "POST", "/mcp", LIST
        yield "POST", "/api/search", {"query": "one"}
        # So long that its tokens are counted, which loads the table of them, and never the same, which would be known.
        text = f"# {uuid.uuid4()}\n\n" + "One two. " * 1_000
        yield "POST", "/api/rag/ingest", {"source": "a", "path": "a", "title": "a", "text": text}

    def is_warm() -> bool:
        for _ in range(8):  # on connections of their own, which are spread over the workers
            for method, path, body in asked():
                assert send(service.port, Made("", method, path, json.dumps(body).encode(), MCP))[0].status < 300
        sizes = [resident_mb(pid) for pid in workers(service)]
        return max(sizes) - min(sizes) < ALIKE_MB

    eventually(is_warm)
