"""Hostile requests to a service as people run it: no failure of the service, bounded work, memory that comes back.

Every violation is collected and told at the end with the request that made it. The whole run (`make soak`) doubles each
shape up to a megabyte and holds the service to its times; the short one stops early and asks for no times.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path

import pytest

from tests.fuzz.hostile_shapes import COLLECTION, Made, doubled, of_the_description
from tests.support.live import eventually, live_service
from tests.support.model_server import model_server

WHOLE = "RAG_SOAK_HOSTILE" in os.environ
MOST = int(os.environ.get("RAG_SOAK_HOSTILE", "4096"))
"""How large the shapes grow, in bytes more or less."""
EVERY = 1 if WHOLE else 23
"""Of the requests that the description gives rise to, the short run sends a part."""
CPU_SECONDS = 2.0
LIVE_SECONDS = 0.1
PROBE_SECONDS = 0.02
GROWN_MB = 100 if WHOLE else 200
ANSWER_SECONDS = 120.0
SETTLE_SECONDS = 60.0
MCP = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Two workers; texts are embedded by a stub, whose time is not the service's."""
    with (
        model_server() as models,
        live_service(
            tmp_path_factory.mktemp("hostile"),
            workers=2,
            log_level="error",
            embedding_provider="openai",
            embedding_url=f"{models.url}/v1",
            embedding_model="stub",
        ) as service,
    ):
        yield service


@dataclass
class Report:
    violations: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    """503 with Retry-After, by the shape."""
    sent: int = 0
    slowest: list[tuple[float, str]] = field(default_factory=list)
    slow_probes: list[float] = field(default_factory=list)

    def fault(self, made: Made, what: str) -> None:
        shown = f"{made.method} {made.path[:80]} {len(made.body)} bytes {made.body[:80]!r}"
        self.violations.append(f"{made.name}: {what} ({shown})")
        print(self.violations[-1], flush=True)


def workers_of(service) -> list[int]:
    """The processes below the service that answer requests."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, found = {service.process.pid}, set()
    while more := {pid for pid, parent in parents.items() if parent in below} - found:
        found |= more
        below = more
    return [pid for pid in found if b"gunicorn" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def cpu_seconds(pids: list[int]) -> float:
    seconds = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def resident_mb(pids: list[int]) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def send(service, made: Made) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", service.port, timeout=ANSWER_SECONDS)
    try:
        connection.putrequest(made.method, made.path, skip_accept_encoding=True)
        for name, text in {**made.headers, "Content-Length": str(len(made.body))}.items():
            connection.putheader(name, text)
        connection.endheaders(made.body)
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


def judge(service, pids: list[int], made: Made, report: Report) -> int | None:
    """The status, None when there was no answer."""
    report.sent += 1
    before = cpu_seconds(pids)
    try:
        answer = send(service, made)
    except (OSError, HTTPException) as error:
        report.fault(made, f"no answer: {error!r}")
        return None
    spent = cpu_seconds(pids) - before
    report.slowest = sorted([*report.slowest, (spent, made.name)], reverse=True)[:10]
    if answer.status == 503 and answer.getheader("Retry-After"):
        report.refused[made.name.partition(" x ")[0]] += 1
    elif answer.status >= 500:
        report.fault(made, f"answered {answer.status}")
    if WHOLE and spent > CPU_SECONDS:
        report.fault(made, f"took {spent:.1f} s of processor time")
    return answer.status


def probe(service, report: Report, ended: threading.Event) -> None:
    while not ended.wait(PROBE_SECONDS):
        began = time.perf_counter()
        try:
            send(service, Made("live", "GET", "/live"))
        except (OSError, HTTPException):
            report.slow_probes.append(ANSWER_SECONDS)
            continue
        seconds = time.perf_counter() - began
        if seconds > LIVE_SECONDS:
            report.slow_probes.append(seconds)


@pytest.mark.timeout(7_200)
def test_hostile_requests_are_answered_within_bounds(service):
    with service.session() as session:
        assert session.post(f"{service.url}/collections", json={"name": COLLECTION}).status_code == 201
        document = {"id": "a", "text": "one two", "metadata": {"n": 1}, "embedding": [0.6, 0.8]}
        added = session.post(f"{service.url}/collections/{COLLECTION}/documents", json={"documents": [document]})
        assert added.status_code == 201
        ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for _ in range(6):  # both workers have imported what they import late
            send(service, Made("ping", "POST", "/mcp", json.dumps(ping).encode(), MCP))
            session.post(f"{service.url}/api/search", json={"query": "one"})
            session.post(f"{service.url}/api/rag/ingest", json={"source": "a", "path": "a", "title": "a", "text": "a"})
    pids, report, ended = workers_of(service), Report(), threading.Event()
    assert len(pids) >= 2
    before_mb = resident_mb(pids)
    prober = threading.Thread(target=probe, args=(service, report, ended))
    prober.start()
    try:
        for name, shape, sizes in doubled(MOST):
            for size in sizes if WHOLE else sizes[-1:]:
                status = judge(service, pids, replace(shape(size), name=f"{name} x {size}"), report)
                if status is None or 400 <= status < 500:
                    break
        for number, made in enumerate(of_the_description()):
            if number % EVERY == 0:
                judge(service, pids, made, report)
    finally:
        ended.set()
        prober.join()
    if WHOLE and report.slow_probes:
        slow = (
            f"{len(report.slow_probes)} times above {LIVE_SECONDS * 1e3:g} ms, at most {max(report.slow_probes):.2f} s"
        )
        report.violations.append(f"/live took {slow}")
    assert sorted(workers_of(service)) == sorted(pids), "a worker ended"
    grown = lambda: resident_mb(pids) - before_mb  # noqa: E731
    try:
        eventually(lambda: grown() < GROWN_MB, seconds=SETTLE_SECONDS)
    except AssertionError:
        report.violations.append(f"the workers hold {grown():.0f} MB more than before")
    print(f"\n{report.sent} requests; refused for now (503): {dict(report.refused)}; slowest: {report.slowest[:5]}")
    print(
        f"memory {before_mb:.0f} MB before, {grown():+.0f} MB after; slow answers of /live: {len(report.slow_probes)}"
    )
    assert not report.violations, "\n".join([f"{len(report.violations)} violations", *report.violations])
