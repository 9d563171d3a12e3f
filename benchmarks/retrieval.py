"""Measure ingesting and searching as text, with the local model, beside the limits of three contracts.

    python -m benchmarks.retrieval [--chunks 10000] [--rounds 10]

The contracts are *context*, *rules* and *documents*. No question was asked before, so each is embedded. In a burst all
clients send at once; the first burst, in which each worker loads its model, does not count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection, request
from benchmarks.data import Corpus
from benchmarks.report import load, machine
from interfaces.commands.scratch_service import scratch_service
from providers.embeddings.minilm import MiniLMProvider

DIMENSION = 384
BATCH = 500
CLIENTS = 100
SENTENCE = "Paragraph {} tells how documents are split, embedded and stored, and what is asked of them later. "
QUESTION = "how is document number {} stored and found again?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    questions = count()
    rows: list[tuple[str, list[float], str, float]] = []
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        connection = Connection(service.url)
        _ask(connection, "search", QUESTION.format("none"))
        rows.append(("ingest a document of 10 KB", ingest(connection, asked.rounds), "max", 5_000))
        fill(connection, Corpus(asked.chunks, DIMENSION, 1))
        for name in ("search", "retrieve", "context", "fused"):
            for _ in range(10):
                _ask(connection, name, QUESTION.format(next(questions)))
            found = [_ask(connection, name, QUESTION.format(next(questions))) for _ in range(20 * asked.rounds)]
            rows.append((f"{name}, one client", found, "p95", {"retrieve": 5_000}.get(name, 500)))
        # A worker loads the model with its first text, and one client talks to one worker.
        burst(service.url, "search", questions)
        for name in ("search", "context", "fused"):
            bursts = [each for _ in range(asked.rounds) for each in burst(service.url, name, questions)]
            rows.append((f"{name}, {CLIENTS} at once", bursts, "p99", 500))
        connection.close()
    rows.append(("embed 10 texts of 30 words", _embed(asked.rounds), "p95", 200))
    _print(rows, f"{asked.chunks} chunks")


def ingest(connection: Connection, rounds: int) -> list[float]:
    found = []
    for number in range(rounds):
        text = "".join(SENTENCE.format(f"{number}-{part}") for part in range(105))
        body = {"source": "bench", "path": f"/{number}", "title": f"Document {number}", "text": text[:10_240]}
        found.append(_timed(connection, "/api/rag/ingest", body))
    return found


def fill(connection: Connection, corpus: Corpus) -> None:
    """Store chunks beside the ingested ones, with ready-made vectors: embedding them is not measured."""
    for start in range(0, corpus.count, BATCH):
        part = range(start, min(start + BATCH, corpus.count))
        documents = [
            {
                "id": f"filled-{number}",
                "text": text,
                "metadata": {
                    "document_id": f"filled-{number}",
                    "chunk_index": 0,
                    "source": "filled",
                    "title": "Filled",
                },
                "embedding": embedding,
            }
            for number, text, embedding in zip(
                part, corpus.texts(part), corpus.embeddings[start : part.stop].tolist(), strict=True
            )
        ]
        connection.call(request("POST", "/collections/rag-documents/documents", {"documents": documents}))


def _ask(connection: Connection, name: str, question: str) -> float:
    return _timed(connection, *_request(name, question))


def _request(name: str, question: str) -> tuple[str, dict[str, Any]]:
    if name == "search":
        return "/api/rag/search", {"query": question}
    if name == "retrieve":
        return "/api/rag/retrieve", {"query": question, "context_key": "bench:1", "min_relevance": 0}
    if name == "context":
        return "/tools/rag_context_search", {"query": question}
    return "/api/search", {"query": question, "oracles": ["semantic", "lexical"]}


def _timed(connection: Connection, path: str, body: dict[str, Any]) -> float:
    """Call the service and return the milliseconds."""
    _, seconds = connection.do([request("POST", path, body)])
    return seconds * 1e3


def burst(url: str, name: str, questions: count[int]) -> list[float]:
    connections = [Connection(url) for _ in range(CLIENTS)]
    found: list[float] = []
    start = threading.Barrier(CLIENTS)

    def client(connection: Connection, question: str) -> None:
        start.wait()
        found.append(_ask(connection, name, question))

    threads = [
        threading.Thread(target=client, args=(connection, QUESTION.format(next(questions))))
        for connection in connections
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    if len(found) != CLIENTS:
        raise SystemExit(f"Only {len(found)} of {CLIENTS} were answered")
    return found


def _embed(rounds: int) -> list[float]:
    found = []
    with MiniLMProvider({}) as model:
        model.embed(["warm up"])
        for number in range(10 * rounds):
            texts = [" ".join(SENTENCE.format(f"{number}-{part}").split() * 2) for part in range(10)]
            found.append(_milliseconds(partial(model.embed, texts)))
    return found


def _milliseconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _print(rows: list[tuple[str, list[float], str, float]], title: str) -> None:
    table = Table("what", "p50 ms", "p95 ms", "p99 ms", "max ms", "limit", "", title=f"Retrieval: {title}")
    for label, found, measure, limit in rows:
        hundredths = statistics.quantiles(found, n=100, method="inclusive")
        values = {"p50": statistics.median(found), "p95": hundredths[94], "p99": hundredths[98], "max": max(found)}
        met = "✓" if values[measure] <= limit else "✗"
        table.add_row(label, *(f"{value:.1f}" for value in values.values()), f"{measure} {limit:g}", met)
    console = Console()
    console.print(table)
    console.print(f"{machine()}, load {load()}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
