"""Measure what the parameters of Chroma's HNSW index cost and give, on a real server.

    python benchmarks/hnsw_parameters.py --documents 20000 --neighbors 16,32 --construction 100 --search 100,200

There is one line per (data, max_neighbors, ef_construction, sync_threshold) and ef_search: documents per second and
server CPU of the adds (one client, batches of 100), recall@10 against the exact answer, and per query the median
latency and server CPU of one client. The data is made from a fixed seed:

- `loose`: 512 centroids with wide noise, in random order, as engines are often measured;
- `sections`: documents of such centroids, about 20 sections around each, inserted document by document;
- `tight`: 512 narrow clusters at right angles, inserted one after the other: the worst case for an index.

`--text` adds 1 KB of text and six metadata fields to each document, which is most of the cost of an add.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from schemas.records import Vector
from wrapper.engine.client import HNSW, EngineClient
from wrapper.engine.keeper.state import EngineStateReader, request_restart
from wrapper.engine.keeper_process import start_keeper

NOISE = {"loose": 0.6, "sections": 0.4, "tight": 0.15}
SECTIONS_PER_DOCUMENT = 20
TOP_K, QUERIES, BATCH, SEED = 10, 300, 100, 20261121


def vectors(data: str, count: int, dimension: int) -> tuple[Vector, Vector]:
    """Return `count` unit vectors to store, in this order, and `QUERIES` more of the same kind as queries."""
    generator = np.random.default_rng(SEED)
    total = count + QUERIES
    centroids = generator.normal(size=(512, dimension))
    if data == "sections":
        documents = count // SECTIONS_PER_DOCUMENT
        centroids = (
            centroids[generator.integers(0, 512, documents)] + generator.normal(size=(documents, dimension)) * 0.6
        )
    cluster = generator.integers(0, len(centroids), total)
    if data in ("sections", "tight"):
        cluster[:count].sort()
    points = centroids[cluster] + NOISE[data] * generator.normal(size=(total, dimension))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    return points[:count], points[count:]


def texts_and_metadatas(count: int) -> tuple[list[str], list[dict[str, Any]]]:
    generator = random.Random(SEED)
    vocabulary = [
        "".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(3, 9))) for _ in range(5000)
    ]
    texts = [" ".join(generator.choices(vocabulary, k=150)) for _ in range(count)]
    metadatas: list[dict[str, Any]] = [
        {
            "n": n,
            "source": f"s{n % 100}",
            "language": "en" if n % 2 else "de",
            "share": n / 7,
            "new": n % 3 == 0,
            "section": f"sec{n // 10}",
        }
        for n in range(count)
    ]
    return texts, metadatas


class Engine:
    """An engine with its keeper, in a directory of its own."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.keeper = start_keeper(data_dir)
        self.reader = EngineStateReader(data_dir)
        self.ready()

    def ready(self, *, other_than: int | None = None) -> None:
        while not (self.reader.read().ready and self.reader.read().pid != other_than):
            time.sleep(0.02)

    def restart(self) -> None:
        pid = self.reader.read().pid
        request_restart(self.data_dir)
        self.ready(other_than=pid)

    def cpu_ms(self) -> int:
        fields = Path(f"/proc/{self.reader.read().pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 10


def add(
    engine: Engine,
    client: EngineClient,
    engine_id: str,
    points: Vector,
    texts: list[str],
    metadatas: list[dict[str, Any]],
) -> tuple[float, float]:
    """Add the documents and return documents per second and server milliseconds of CPU per document."""
    started, cpu = time.perf_counter(), engine.cpu_ms()
    for start in range(0, len(points), BATCH):
        part = slice(start, start + BATCH)
        ids = [f"document-{n}" for n in range(start, min(start + BATCH, len(points)))]
        client.upsert(engine_id, ids, points[part], texts[part], metadatas[part])
    return len(points) / (time.perf_counter() - started), (engine.cpu_ms() - cpu) / len(points)


def ask(
    engine: Engine, client: EngineClient, engine_id: str, points: Vector, queries: Vector
) -> tuple[float, float, float]:
    """Ask all queries and return recall@10, median milliseconds and server milliseconds of CPU per query."""
    for query in queries[:20]:
        client.query(engine_id, query[np.newaxis], TOP_K)
    latencies: list[float] = []
    recall: list[float] = []
    began_ms, found = engine.cpu_ms(), []
    for query in queries:
        started = time.perf_counter()
        found.append(client.query(engine_id, query[np.newaxis], TOP_K)[0])
        latencies.append((time.perf_counter() - started) * 1000)
    cpu = (engine.cpu_ms() - began_ms) / len(queries)
    for query, ids in zip(queries, found, strict=True):
        similarity = points @ query
        limit = np.partition(similarity, -TOP_K)[-TOP_K] - 1e-6
        recall.append(sum(similarity[int(name.split("-")[1])] >= limit for name in ids) / TOP_K)
    return statistics.mean(recall), statistics.median(latencies), cpu


def measure(arguments: argparse.Namespace, data: str, neighbors: int, construction: int, sync_threshold: int) -> None:
    points, queries = vectors(data, arguments.documents, arguments.dimension)
    texts, metadatas = (
        texts_and_metadatas(len(points)) if arguments.text else ([""] * len(points), [{} for _ in points])
    )
    hnsw = {**HNSW, "max_neighbors": neighbors, "ef_construction": construction, "sync_threshold": sync_threshold}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        engine = Engine(Path(directory))
        client = EngineClient(engine.reader.url, hnsw=hnsw)
        engine_id = client.create_collection("parameters", metric="cosine")
        added = add(engine, client, engine_id, points, texts, metadatas)
        for search in arguments.search:
            configuration = {"new_configuration": {"hnsw": {"ef_search": search}}}
            client._transport.call("PUT", client._named(engine_id), configuration, timeout_seconds=10)
            engine.restart()
            recall, latency, cpu = ask(engine, client, engine_id, points, queries)
            parameters = f"{data:6} {neighbors:4} {construction:5} {sync_threshold:6} {search:5}"
            costs = f"{added[0]:7.0f} {added[1]:8.3f}  {recall:9.4f} {latency:9.2f} {cpu:8.2f}"
            print(parameters, costs, flush=True)
        engine.keeper.stop()


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--data", default="loose,sections,tight", help="of loose, sections, tight")
    parser.add_argument("--neighbors", type=numbers, default=[HNSW["max_neighbors"]])
    parser.add_argument("--construction", type=numbers, default=[HNSW["ef_construction"]])
    parser.add_argument("--search", type=numbers, default=[HNSW["ef_search"]])
    parser.add_argument("--sync-threshold", type=numbers, default=[HNSW["sync_threshold"]])
    parser.add_argument("--text", action="store_true", help="store 1 KB of text and six metadata fields with each")
    parser.add_argument("--directory", help="where the engines' directories are made; default: the system's")
    arguments = parser.parse_args()
    print("data      M  ef_c   sync  ef_s     add/s  cpu/add  recall@10   ms p50  cpu/query   (cpu in ms)")
    for combination in product(
        arguments.data.split(","), arguments.neighbors, arguments.construction, arguments.sync_threshold
    ):
        measure(arguments, *combination)


if __name__ == "__main__":
    main()
