"""Measure the cost of thousands of collections, in this service and in a stock `chroma run`.

    python -m benchmarks.many_collections [--collections 10000] [--filled 500] [--peer 0] [--json figures.json]

The last `--filled` of them get a document each: Chroma takes 2.6 MB of memory for the index of each that holds any.
`--peer` is the number of collections made in a Chroma server of its own, by default the same number; the last
`--filled` of these get a document too.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.clients import Connection, RefusedError, request
from benchmarks.peer import COLLECTIONS, chroma_run
from benchmarks.processes import cpu_seconds, memory_of
from interfaces.commands.scratch_service import processes_in, scratch_service
from schemas.errors import RagError
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase

DIMENSION = 16
PAGE = 1_000
ROUNDS = 20
IDLE_SECONDS = 10.0
POLL_SECONDS = 0.2
LONGEST_ROUND_SECONDS = 3600.0


class Figures:
    """The figures of a run, printed as they come."""

    def __init__(self) -> None:
        self.rows: dict[str, float | str] = {}

    def add(self, name: str, value: float, unit: str) -> None:
        self.rows[f"{name}, {unit}"] = round(value, 2)
        print(f"{name}: {value:,.2f} {unit}", flush=True)

    def add_latencies(self, name: str, seconds: list[float]) -> None:
        """Add the latencies of the first and of the last tenth."""
        tenth = max(1, len(seconds) // 10)
        for which, part in (("first tenth", seconds[:tenth]), ("last tenth", seconds[-tenth:])):
            ordered = sorted(part)
            self.add(f"{name}, {which}, p50", statistics.median(ordered) * 1e3, "ms")
            self.add(f"{name}, {which}, p95", ordered[int(len(ordered) * 0.95)] * 1e3, "ms")


def name_of(number: int) -> str:
    return f"team-{number:06d}"


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Call a function and return (seconds, its result)."""
    started = time.perf_counter()
    found = call(*arguments)
    return time.perf_counter() - started, found


def wait_until(is_so: Callable[[], bool]) -> float:
    """Wait until a condition holds and return the seconds. Raises TimeoutError after `LONGEST_ROUND_SECONDS`."""
    started = time.perf_counter()
    while not is_so():
        if time.perf_counter() - started > LONGEST_ROUND_SECONDS:
            raise TimeoutError("the check-ups did not come to an end")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - started


@contextmanager
def connected(url: str) -> Iterator[Callable[..., Any]]:
    """Yield `ask(method, path, body)`, which calls the service over one kept connection."""
    with closing(Connection(url)) as connection:
        yield lambda method, path, body=None: connection.call(request(method, path, body))


def _memory(figures: Figures, moment: str, directory: Path) -> None:
    for each in memory_of("", directory):
        figures.add(f"memory {moment}, {each.process} {each.pid}", each.pss_mb, "MB")


def make_ours(figures: Figures, url: str, collections: int, filled: int) -> None:
    created, added = [], []
    embedding = [1.0] * DIMENSION
    with connected(url) as ask:
        for number in range(collections):
            name = name_of(number)
            document = {"id": "a", "text": f"The text of team {number}", "embedding": embedding}
            created.append(timed(ask, "POST", "/collections", {"name": name})[0])
            if number >= collections - filled:
                path, body = f"/collections/{name}/documents", {"documents": [document]}
                added.append(timed(ask, "POST", path, body)[0])
    figures.add_latencies("create", created)
    figures.add_latencies("first document", added)


def make_theirs(figures: Figures, url: str, collections: int, filled: int) -> None:
    created, added = [], []
    record = {"ids": ["a"], "embeddings": [[1.0] * DIMENSION], "documents": ["The text"], "metadatas": [None]}
    with connected(url) as ask:
        for number in range(collections):
            seconds, made = timed(ask, "POST", COLLECTIONS, {"name": name_of(number)})
            created.append(seconds)
            if number >= collections - filled:
                added.append(timed(ask, "POST", f"{COLLECTIONS}/{made['id']}/add", record)[0])
    figures.add_latencies("Chroma, create", created)
    figures.add_latencies("Chroma, first document", added)


def read_ours(figures: Figures, url: str, data_dir: Path, collections: int) -> None:
    last = name_of(collections - 1)

    def first_read(database: SQLiteDatabase) -> float:
        started = time.perf_counter()
        with database.read() as transaction:
            find_collection(transaction, last)
        return time.perf_counter() - started

    fresh, after_create = [], []
    path = data_dir / "catalog.sqlite"
    with closing(SQLiteDatabase(path)) as kept, connected(url) as ask:
        first_read(kept)
        for number in range(ROUNDS):
            ask("POST", "/collections", {"name": f"extra-{number}"})
            after_create.append(first_read(kept))
            with closing(SQLiteDatabase(path)) as database:
                fresh.append(first_read(database))
            ask("DELETE", f"/collections/extra-{number}")
        figures.add("first read of a new connection, p50", statistics.median(fresh) * 1e3, "ms")
        figures.add("read after another made a collection, p50", statistics.median(after_create) * 1e3, "ms")
        pages, cursor = [], ""
        while cursor is not None:
            asked = f"/collections?limit={PAGE}" + (f"&cursor={cursor}" if cursor else "")
            seconds, answer = timed(ask, "GET", asked)
            pages.append(seconds)
            cursor = answer["next_cursor"]
        figures.add(f"a page of {PAGE}, p50", statistics.median(pages) * 1e3, "ms")
        for asked in ("/collections", "/health"):
            taken = [timed(ask, "GET", asked)[0] for _ in range(ROUNDS)]
            figures.add(f"GET {asked}, p50", statistics.median(taken) * 1e3, "ms")


def restart_ours(figures: Figures, scratch: Path, collections: int) -> None:
    started = time.perf_counter()
    with scratch_service(scratch) as service, connected(service.url) as ask:
        figures.add("start", time.perf_counter() - started, "s")
        empty = f"/collections/{name_of(0)}/index"
        wait_until(lambda: ask("GET", empty)["state"] == "ready")
        figures.add("from the start until those without documents are ready", time.perf_counter() - started, "s")
        wait_until(lambda: ask("GET", "/health")["indexes"]["ready"] == collections)
        figures.add("from the start until all are ready", time.perf_counter() - started, "s")
        _memory(figures, "after a check-up round", scratch)
        time.sleep(IDLE_SECONDS)
        pids = processes_in(scratch)
        before = cpu_seconds(pids)
        time.sleep(IDLE_SECONDS)
        figures.add("processor while idle", 100 * (cpu_seconds(pids) - before) / IDLE_SECONDS, "% of one")
        with_query = {"query_embedding": [1.0] * DIMENSION, "top_k": 1}
        query = f"/collections/{name_of(collections - 1)}/query"
        taken = [timed(ask, "POST", query, with_query)[0] for _ in range(ROUNDS)]
        figures.add("query, p50", statistics.median(taken) * 1e3, "ms")


def run(collections: int, filled: int, peer: int) -> Figures:
    figures = Figures()
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = Path(directory, "ours"), Path(directory, "theirs")
        ours.mkdir()
        theirs.mkdir()
        with scratch_service(ours) as service:
            make_ours(figures, service.url, collections, filled)
            read_ours(figures, service.url, ours / "data", collections)
            _memory(figures, "after all were made", ours)
        restart_ours(figures, ours, collections)
        if peer:
            with chroma_run(theirs) as url:
                make_theirs(figures, url, peer, filled)
                _memory(figures, "of Chroma", theirs)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=int, default=10_000)
    parser.add_argument("--filled", type=int, default=500)
    parser.add_argument("--peer", type=int, help="collections made in a stock Chroma server; 0 for none")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    machine = report.machine()
    print(", ".join(machine.values()), "· load", report.load(), flush=True)
    try:
        peer = arguments.collections if arguments.peer is None else arguments.peer
        figures = run(arguments.collections, arguments.filled, peer)
    except (RefusedError, RagError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    table = Table(title=f"{arguments.collections:,} collections", caption=f"load {report.load()}")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in figures.rows.items():
        table.add_row(name, str(value))
    Console().print(table)
    if arguments.json:
        content = {"machine": machine, "collections": arguments.collections, "figures": figures.rows}
        arguments.json.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
