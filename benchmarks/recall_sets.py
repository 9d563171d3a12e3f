"""Measure the recall of an index on sets that are hard for graphs of near neighbours (`benchmarks/vector_sets.py`).

    python -m benchmarks.recall_sets --documents 20000 --dimension 128 --parameters 16/100/150,16/100/400,16/200/400

There is one line per set and parameters (max_neighbors/ef_construction/ef_search): the server CPU of an add, and for
each number of candidates asked of the engine the recall@10 without a filter and with one that half of the documents
match, and the median latency. No texts, one client, cosine. With `--samples 3`, three times two lines follow: with
twenty of the documents as queries, which chance chose, and with the ten that lie farthest from these.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.hnsw_parameters import Engine, numbers
from benchmarks.vector_sets import SETS, vector_set
from schemas.records import Vector
from wrapper.engine.client import HNSW, EngineClient
from wrapper.indexing.farthest import Farthest
from wrapper.indexing.recall import FAR_QUERIES, QUERIES

TOP_K, BATCH = 10, 500
ROUNDING = 1e-6


def parameters(text: str) -> list[dict[str, int]]:
    names = ("max_neighbors", "ef_construction", "ef_search")
    return [dict(zip(names, map(int, part.split("/")), strict=True)) for part in text.split(",")]


def add(engine: Engine, client: EngineClient, name: str, points: Vector) -> tuple[str, float]:
    """Add the vectors and return the collection's id and the server milliseconds of CPU per document."""
    engine_id, cpu = client.create_collection(name, metric="cosine"), engine.cpu_ms()
    for start in range(0, len(points), BATCH):
        part = points[start : start + BATCH]
        ids = [str(number) for number in range(start, start + len(part))]
        client.upsert(engine_id, ids, part, [""] * len(ids), [{}] * len(ids), all_new=True)
    return engine_id, (engine.cpu_ms() - cpu) / len(points)


def ask(
    client: EngineClient, engine_id: str, queries: Vector, candidates: int
) -> tuple[list[NDArray[np.int64]], float]:
    """Return, for each query, the numbers of the proposed documents, and the median of the milliseconds."""
    found, latencies = [], []
    for query in queries:
        began = time.perf_counter()
        found.append(np.array(client.query(engine_id, query[np.newaxis], candidates)[0], dtype=int))
        latencies.append((time.perf_counter() - began) * 1e3)
    return found, statistics.median(latencies)


def recall(distances: NDArray[np.float64], found: list[NDArray[np.int64]], matching: NDArray[np.bool_]) -> float:
    hits = 0
    for row, proposed in zip(distances, found, strict=True):
        limit = np.partition(row[matching], TOP_K - 1)[TOP_K - 1] + ROUNDING
        hits += min(TOP_K, int(np.count_nonzero(row[proposed[matching[proposed]]] <= limit)))
    return hits / (TOP_K * len(found))


def measure(engine: Engine, chosen: dict[str, int], kind: str, arguments: argparse.Namespace) -> None:
    points, queries = vector_set(kind, arguments.documents, arguments.dimension)
    client = EngineClient(engine.reader.url, hnsw={**HNSW, **chosen})
    name = "/".join(map(str, chosen.values()))
    engine_id, cpu = add(engine, client, f"{kind}-{name}".replace(" ", "-").replace("/", "-"), points)
    everything = np.ones(len(points), dtype=bool)
    half = np.arange(len(points)) % 2 == 0

    def tell(line: str, queries: Vector) -> None:
        normed = [each / np.linalg.norm(each.astype(float), axis=1, keepdims=True) for each in (queries, points)]
        distances = 1.0 - normed[0] @ normed[1].T
        for candidates in arguments.candidates:
            found, latency = ask(client, engine_id, queries, candidates)
            rates = [recall(distances, found, matching) for matching in (everything, half)]
            line += f"  {candidates:4}: {rates[0]:.3f} {rates[1]:.3f} {latency:5.1f}"
        print(line, flush=True)

    tell(f"{kind:17} {name:12} {cpu:8.2f} ", queries)
    for seed in range(arguments.samples):
        chosen_by_chance = points[np.random.default_rng(seed).choice(len(points), QUERIES, replace=False)]
        farthest = Farthest(chosen_by_chance, "cosine", FAR_QUERIES)
        farthest.see(points)
        tell(f"{'  by chance':39} ", chosen_by_chance)
        tell(f"{'  the farthest':39} ", farthest.vectors)
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--parameters", type=parameters, default=parameters("16/100/150,16/100/400,16/200/400"))
    parser.add_argument("--candidates", type=numbers, default=[20, 70, 200])
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--directory", help="where the engine's directory is made; default: the system's")
    arguments = parser.parse_args()
    print("set               M/ef_c/ef_s   cpu/add    candidates: recall@10, of half, ms p50 …   (cpu in ms)")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        engine = Engine(Path(directory))
        for chosen in arguments.parameters:
            for kind in arguments.sets.split(","):
                measure(engine, chosen, kind, arguments)
        engine.keeper.stop()


if __name__ == "__main__":
    main()
