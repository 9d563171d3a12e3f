"""Compare collecting from five collections with collecting from each of them alone.

    python -m benchmarks.collect [--documents 2000] [--embedding-ms 50]

One client asks the running service with texts that nobody has asked before, so that each is embedded once. Five
collections and single ones take turns, first with the local model, then with an embedding server that answers after
`--embedding-ms`. The ratio is the median with five to that of the slowest single one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection, request
from benchmarks.data import Corpus
from interfaces.commands.scratch_service import scratch_service

COLLECTIONS = 5
DIMENSION = 384
BATCH = 100
ROUNDS, WARM_UP = 200, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2_000, help="in each collection")
    parser.add_argument("--embedding-ms", type=float, default=50.0, help="how long the embedding server takes")
    asked = parser.parse_args()
    documents = asked.documents
    names = [f"collection-{number}" for number in range(COLLECTIONS)]
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        connection = Connection(service.url)
        for name in names:
            _fill(connection, name, Corpus(documents, DIMENSION, 1, name=name))
        _measure(connection, names, "default", f"local model, {documents} documents in each collection")
        with _embedding_server(asked.embedding_ms / 1e3) as url:
            made = {"id": "slow", "type": "embedding", "provider": "openai", "config": {"url": url}}
            connection.call(request("POST", "/api/connections", made))
            _measure(connection, names, "slow", f"embedding server of {asked.embedding_ms:g} ms, the same collections")
        connection.close()


def _measure(connection: Connection, names: list[str], embedding: str, title: str) -> None:
    sets = [*([name] for name in names), names]
    milliseconds: list[list[float]] = [[] for _ in sets]
    questions = count()
    for number in range(WARM_UP + ROUNDS):
        for place, asked in enumerate(sets):
            question = f"what is known about item {next(questions)}?"
            answers, seconds = connection.do([request("POST", "/api/collect", _body(question, asked, embedding))])
            _check(answers[0], asked)
            if number >= WARM_UP:
                milliseconds[place].append(seconds * 1e3)
    _print(sets, milliseconds, title)


@contextmanager
def _embedding_server(seconds: float) -> Iterator[str]:
    """Run a server of OpenAI's protocol that answers after `seconds`, in a process of its own, and yield its URL."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_serve_embeddings, args=(seconds, sender), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{receiver.recv()}/v1"
    finally:
        process.kill()
        process.join()


def _serve_embeddings(seconds: float, sender: Any) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            texts = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            time.sleep(seconds)
            rows = [{"index": n, "embedding": [1.0] + [0.0] * (DIMENSION - 1)} for n, _ in enumerate(texts)]
            content = orjson.dumps({"data": rows})
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sender.send(server.server_port)
    server.serve_forever()


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


def _body(question: str, names: list[str], embedding: str) -> dict[str, Any]:
    selected = [{"service": "local", "name": name, "embedding_connection": embedding} for name in names]
    return {"userMessage": question, "selectedCollections": selected}


def _check(answer: dict[str, Any], names: list[str]) -> None:
    receipt = answer["receipt"]
    failed = [each for each in receipt["collections"] if each["status"] == "failed"]
    if failed or receipt["embeddings"] != {"generated": 1, "reused": len(names) - 1}:
        raise SystemExit(f"The answer is not what is measured: {receipt}")


def _print(sets: list[list[str]], milliseconds: list[list[float]], title: str) -> None:
    table = Table("asked", "p50 ms", "p95 ms", title=f"Collecting: {title}")
    for asked, found in zip(sets, milliseconds, strict=True):
        label = asked[0] if len(asked) == 1 else f"all {len(asked)}"
        table.add_row(label, f"{statistics.median(found):.2f}", f"{statistics.quantiles(found, n=20)[-1]:.2f}")
    console = Console()
    console.print(table)
    singles = [statistics.median(found) for found in milliseconds[:-1]]
    console.print(f"all {COLLECTIONS} to the slowest one: {statistics.median(milliseconds[-1]) / max(singles):.2f}")


if __name__ == "__main__":
    main()
