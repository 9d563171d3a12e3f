"""Open every page of the console as a browser does, while the service holds 100,000 documents.

    python -m benchmarks.console.pages [--documents 100000] [--rounds 15]

The documents are those of the storage benchmark, in the collection that documents of people go to, so that a question
is answered from them by both oracles. `first` is the page's first opening after the last write, which finds nothing
remembered; the others are spread over the rounds, page after page. Each request has a connection of its own and asks
for compressed content; the time ends with the last byte of the page. Pages have 300 ms, the map has three seconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import requests
from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection, request
from benchmarks.data import Corpus
from benchmarks.report import load, machine
from interfaces.commands.scratch_service import scratch_service

COLLECTION = "rag-documents"
DIMENSION = 384
BATCH = 500
LIMIT_MS, LIMIT_OF_MAPS_MS = 300, 3_000
TIMEOUT_SECONDS = 60


@dataclass
class Page:
    """A page of the console. `{n}` in its query is another number each time it is opened."""

    title: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)
    kilobytes: float = 0.0

    @property
    def limit_ms(self) -> int:
        return LIMIT_OF_MAPS_MS if self.path.endswith("/map") else LIMIT_MS

    def open(self, url: str, number: int) -> requests.Response:
        """Open the page and take the time. Raises HTTPError when it is refused."""
        query = {name: value.replace("{n}", str(number)) for name, value in self.query.items()}
        started = time.perf_counter()
        answer = requests.get(
            f"{url}/console{self.path}?{urlencode(query)}",
            headers={"Accept": "text/html", "Accept-Encoding": "gzip"},
            timeout=TIMEOUT_SECONDS,
        )
        self.milliseconds.append((time.perf_counter() - started) * 1_000)
        answer.raise_for_status()
        self.kilobytes = len(answer.content) / 1_000
        return answer


def pages(words: Sequence[str], next_cursor: str, half_cursor: str) -> list[Page]:
    documents = f"/collections/{COLLECTION}"
    half = json.dumps({"half": 1})
    return [
        Page("ask, without a question", "/ask"),
        Page("ask, two words and a number", "/ask", {"q": f"{words[0]} {words[1]} {{n}}"}),
        Page("ask, filtered, with receipts", "/ask", {"q": f"{words[2]} {words[3]} {{n}}", "where": half, "why": "1"}),
        Page("ask, nothing fits", "/ask", {"q": "zzxqj vvkwp {n}"}),
        Page("collections", "/collections"),
        Page("one collection", documents),
        Page("its next documents", documents, {"cursor": next_cursor}),
        Page("half of them", documents, {"where": half}),
        Page("half, next documents", documents, {"where": half, "cursor": half_cursor}),
        Page("a tenth of a thousandth", documents, {"where": json.dumps({"ten": 7})}),
        Page("sorted by a number", documents, {"order_by": "-thou"}),
        Page("sorted by their last change", documents, {"order_by": "-updated_at"}),
        Page("one document", f"{documents}/document", {"id": "document-4{n}"}),
        Page("half to be deleted", f"{documents}/delete", {"where": half}),
        Page("documents and jobs", "/documents"),
        Page("connections", "/connections"),
        Page("a new connection", "/new-connection/rag/chromadb"),
        Page("quality", "/quality"),
        *(
            Page(f"service: {name[1:] or 'health'}", f"/service{name}")
            for name in ("", "/keys", "/traffic", "/audit", "/backups", "/settings")
        ),
        Page("map", f"{documents}/map"),
        Page("map, coloured by a field", f"{documents}/map", {"field": "language"}),
        Page("map of half of them", f"{documents}/map", {"where": half, "field": "thou"}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    corpus = Corpus(asked.documents, DIMENSION, 1)
    numbers = count(1)
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        connection = Connection(service.url)
        body = {"source": "bench", "path": "/first", "title": "First", "text": "This text loads the model."}
        connection.call(request("POST", "/api/rag/ingest", body))
        _fill(connection, corpus)
        _wait_for_indexes(connection)
        first, half = (_first_page(connection, where) for where in (None, {"half": 1}))
        connection.close()
        opened = pages(corpus.texts(range(1))[0].split()[:4], first, half)
        for _ in range(asked.rounds + 1):
            for page in opened:
                page.open(service.url, next(numbers))
    _print(opened, f"{asked.documents} documents, {asked.rounds} rounds")


def _fill(connection: Connection, corpus: Corpus) -> None:
    for start in range(0, corpus.count, BATCH):
        part = range(start, min(start + BATCH, corpus.count))
        rows = zip(
            corpus.ids(part),
            corpus.texts(part),
            corpus.metadatas(part),
            corpus.embeddings[start : part.stop].tolist(),
            strict=True,
        )
        documents = [
            {"id": name, "text": text, "metadata": _as_read(metadata), "embedding": embedding}
            for name, text, metadata, embedding in rows
        ]
        connection.call(request("POST", f"/collections/{COLLECTION}/documents", {"documents": documents}))


def _as_read(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a passage as if a document had been read, whose first passage says when it changed."""
    section = metadata["section_id"]
    told = metadata | {"document_id": section, "title": f"Title of {section}"}
    if metadata["chunk_index"] == 0:
        number = int(section.rpartition("-")[2])
        told["updated_at"] = f"2026-11-{1 + number % 24:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
    return told


def _wait_for_indexes(connection: Connection) -> None:
    """Wait until the vectors are in the index, as the pages of a collection that rests find them."""
    while True:
        listed = connection.call(request("GET", "/collections?include=index"))["collections"]
        if all(each["index"]["state"] == "ready" and not each["index"]["waiting_writes"] for each in listed):
            return
        time.sleep(0.5)


def _first_page(connection: Connection, where: object) -> str:
    query = urlencode({"limit": 25} | ({} if where is None else {"where": json.dumps(where)}))
    return str(connection.call(request("GET", f"/collections/{COLLECTION}/documents?{query}"))["next_cursor"])


def _print(opened: Sequence[Page], title: str) -> None:
    table = Table("page", "first ms", "p50 ms", "p95 ms", "max ms", "KB", "", title=title)
    for page in opened:
        first, *later = page.milliseconds
        shown = (first, statistics.median(later), statistics.quantiles(later, n=20, method="inclusive")[18], max(later))
        slowest = max(page.milliseconds)
        met = f"{'<' if slowest < page.limit_ms else '≥'} {page.limit_ms}"
        table.add_row(page.title, *(f"{value:.0f}" for value in shown), f"{page.kilobytes:.0f}", met)
    console = Console()
    console.print(table)
    console.print(f"{machine()}, load {load()}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
