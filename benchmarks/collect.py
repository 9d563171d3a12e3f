"""Collecting from five collections beside collecting from each of them alone.

    python -m benchmarks.collect [--documents 2000]

One client asks the running service with texts that nobody asked before, so that each is embedded once, by the local
model. Five collections and single ones take turns. The ratio is the median with five to that of the slowest single one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection, request
from benchmarks.data import Corpus
from interfaces.scratch_service import scratch_service

COLLECTIONS = 5
DIMENSION = 384
BATCH = 100
ROUNDS, WARM_UP = 200, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2_000, help="in each collection")
    documents = parser.parse_args().documents
    names = [f"collection-{number}" for number in range(COLLECTIONS)]
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        connection = Connection(service.url)
        for name in names:
            _fill(connection, name, Corpus(documents, DIMENSION, 1, name=name))
        sets = [*([name] for name in names), names]
        milliseconds: list[list[float]] = [[] for _ in sets]
        questions = count()
        for number in range(WARM_UP + ROUNDS):
            for place, asked in enumerate(sets):
                work = [request("POST", "/api/collect", _body(f"what is known about item {next(questions)}?", asked))]
                answers, seconds = connection.do(work)
                _check(answers[0], asked)
                if number >= WARM_UP:
                    milliseconds[place].append(seconds * 1e3)
        connection.close()
    _print(sets, milliseconds, documents)


def _fill(connection: Connection, name: str, corpus: Corpus) -> None:
    connection.call(request("POST", "/collections", {"name": name}))
    for start in range(0, corpus.count, BATCH):
        part = range(start, min(start + BATCH, corpus.count))
        columns = zip(
            corpus.ids(part),
            corpus.texts(part),
            corpus.metadatas(part),
            corpus.embeddings[start : part.stop],
            strict=True,
        )
        names = ("id", "text", "metadata", "embedding")
        documents = [dict(zip(names, document, strict=True)) for document in columns]
        connection.call(request("POST", f"/collections/{name}/documents", {"documents": documents}))


def _body(question: str, names: list[str]) -> dict[str, Any]:
    selected = [{"service": "local", "name": name, "embedding_connection": "default"} for name in names]
    return {"userMessage": question, "selectedCollections": selected}


def _check(answer: dict[str, Any], names: list[str]) -> None:
    receipt = answer["receipt"]
    failed = [each for each in receipt["collections"] if each["status"] == "failed"]
    if failed or receipt["embeddings"] != {"generated": 1, "reused": len(names) - 1}:
        raise SystemExit(f"The answer is not what is measured: {receipt}")


def _print(sets: list[list[str]], milliseconds: list[list[float]], documents: int) -> None:
    table = Table("asked", "p50 ms", "p95 ms", title=f"Collecting, {documents} documents in each collection")
    for asked, found in zip(sets, milliseconds, strict=True):
        label = asked[0] if len(asked) == 1 else f"all {len(asked)}"
        table.add_row(label, f"{statistics.median(found):.2f}", f"{statistics.quantiles(found, n=20)[-1]:.2f}")
    console = Console()
    console.print(table)
    singles = [statistics.median(found) for found in milliseconds[:-1]]
    console.print(f"all {COLLECTIONS} to the slowest one: {statistics.median(milliseconds[-1]) / max(singles):.2f}")


if __name__ == "__main__":
    main()
