"""Measure the recall of the service's answers on sets that are hard for graphs of near neighbours.

    python -m benchmarks.promised_recall [--documents 20000] [--dimension 384] [--sets random,…] [--json figures.json]

Each set is loaded into a service of its own: once with its vectors held in memory, once without memory for them
(`RAG_MEMORY_VECTORS_MB=0`), and once without but with so little time for exact answers (`RAG_EXACT_MS`) that the index
answers, once it has been measured. But for that, queries begin as soon as the documents are added: the first ones are
part of the figures. Filters match 0.1, 1, 10 and 50 % of the documents: by
chance (`apart`), and those that lie in one direction (`along`). Distances are by cosine; documents as near as the tenth
count as found. `sentences` are texts of Python's standard library, embedded by the service's own model.
"""

from __future__ import annotations

import argparse
import ast
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks import report
from benchmarks.clients import Connection, RefusedError, request
from benchmarks.vector_sets import SEED, SETS, Matrix
from interfaces.commands.scratch_service import scratch_service
from providers.embeddings.minilm import MiniLMProvider

NAME, TOP_K, BATCH, CLUSTERS = "recall", 10, 500, 60
QUERIES, EMBEDDED_AT_ONCE = 40, 64
SHARES = (0.001, 0.01, 0.1, 0.5)
TIE = 1e-6
LONGEST_CHARACTERS, SHORTEST_CHARACTERS = 400, 60
MOST_SECONDS, POLL_SECONDS = 600.0, 0.5
MEASURED = "measured index"
MODES: dict[str, dict[str, Any]] = {
    "in memory": {},
    "computed": {"memory_vectors_mb": "0"},
    MEASURED: {"memory_vectors_mb": "0", "exact_ms": "5"},
}


def random_directions(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    points = np.random.default_rng(SEED).normal(size=(count + QUERIES, dimension))
    return points[:count], points[count:]


def sixty_clusters(count: int, dimension: int) -> tuple[Matrix, Matrix]:
    """Make tight clusters, written one after the other; queries lie within them."""
    generator = np.random.default_rng(SEED)
    clusters = np.sort(np.arange(count + QUERIES) % CLUSTERS)
    points = generator.normal(size=(CLUSTERS, dimension))[clusters]
    points += generator.normal(size=points.shape) * 0.1
    asked = generator.choice(len(points), QUERIES, replace=False)
    return np.delete(points, asked, axis=0), points[asked]


def sentences(count: int, _dimension: int) -> tuple[Matrix, Matrix]:
    """Embed paragraphs of the docstrings of Python's standard library; some of them are the queries."""
    texts = sorted(set(_paragraphs()))
    np.random.default_rng(SEED).shuffle(texts)
    texts = texts[: count + QUERIES]
    with MiniLMProvider({}) as model:
        parts = [
            model.embed(texts[start : start + EMBEDDED_AT_ONCE]) for start in range(0, len(texts), EMBEDDED_AT_ONCE)
        ]
    vectors = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    return vectors[:-QUERIES], vectors[-QUERIES:]


def _paragraphs() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
                for each in said.split("\n\n"):
                    paragraph = " ".join(each.split())[:LONGEST_CHARACTERS]
                    if len(paragraph) >= SHORTEST_CHARACTERS:
                        yield paragraph


Made = Callable[[int, int], tuple[Matrix, Matrix]]
ALL_SETS: dict[str, Made] = {
    "random": random_directions,
    **SETS,
    "sixty clusters": sixty_clusters,
    "sentences": sentences,
}


def filters_of(points: Matrix) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, tuple[str, int]]]:
    """Return the ranks (n,) of the documents by field, and for each filter its field and how many documents it has."""
    generator = np.random.default_rng(SEED)
    direction = points[generator.integers(len(points))]
    ranks = {
        "apart": generator.permutation(len(points)),
        "along": np.argsort(np.argsort(-(_directions(points) @ direction), kind="stable"), kind="stable"),
    }
    wanted = {
        f"{field} {100 * share:g} %": (field, max(1, round(share * len(points)))) for field in ranks for share in SHARES
    }
    return ranks, wanted


def measure(points: Matrix, queries: Matrix, mode: str, directory: Path) -> dict[str, Any]:
    """Return the recall@10 without a filter and with each, and how often each plan was taken."""
    ranks, wanted = filters_of(points)
    distances = 1.0 - _directions(queries) @ _directions(points).T
    recalls: dict[str, float] = {}
    plans: Counter[str] = Counter()
    with scratch_service(directory, **MODES[mode]) as service:
        connection = Connection(service.url)
        connection.call(request("POST", "/collections", {"name": NAME, "metadata": {"hnsw:space": "cosine"}}))
        for start in range(0, len(points), BATCH):
            documents = [
                {
                    "id": str(n),
                    "text": "",
                    "metadata": {field: int(rank[n]) for field, rank in ranks.items()},
                    "embedding": points[n].tolist(),
                }
                for n in range(start, min(start + BATCH, len(points)))
            ]
            connection.call(request("POST", f"/collections/{NAME}/documents", {"documents": documents}))
        if mode == MEASURED:
            _wait_until_measured(connection)
        for title, chosen in {"no filter": None, **wanted}.items():
            matching = np.ones(len(points), bool) if chosen is None else ranks[chosen[0]] < chosen[1]
            hits = expected = 0
            for query, near in zip(queries, distances, strict=True):
                body: dict[str, Any] = {"query_embedding": query.tolist(), "top_k": TOP_K}
                if chosen is not None:
                    body["where"] = {chosen[0]: {"$lt": chosen[1]}}
                answer = connection.call(request("POST", f"/collections/{NAME}/query", body))
                plans[answer["plan"]] += 1
                found = [int(each["id"]) for each in answer["results"]]
                number = min(TOP_K, int(matching.sum()))
                limit = np.partition(near[matching], number - 1)[number - 1] + TIE
                expected += number
                hits += sum(1 for place in found if matching[place] and near[place] <= limit)
            recalls[title] = hits / expected
        connection.close()
    return {"recalls": recalls, "plans": dict(plans)}


def _wait_until_measured(connection: Connection) -> None:
    connection.call(request("POST", f"/collections/{NAME}/index/check"))
    ends_at = time.monotonic() + MOST_SECONDS
    while connection.call(request("GET", f"/collections/{NAME}/index")).get("recall_at_10") is None:
        if time.monotonic() > ends_at:
            raise RefusedError("The recall of the index was not measured in time")
        time.sleep(POLL_SECONDS)


def _directions(points: Matrix) -> np.ndarray[Any, Any]:
    exact = points.astype(np.float64)
    directions: np.ndarray[Any, Any] = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return directions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(ALL_SETS))
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(report.machine(), flush=True)
    figures: dict[str, Any] = {}
    for name in arguments.sets:
        points, queries = (each.astype(np.float32) for each in ALL_SETS[name](arguments.documents, arguments.dimension))
        for mode in arguments.modes:
            with tempfile.TemporaryDirectory() as directory:
                found = measure(points, queries, mode, Path(directory))
            figures.setdefault(name, {})[mode] = found
            without, *filtered = found["recalls"].values()
            lowest = f"lowest with a filter {min(filtered):.4f}"
            print(f"{name}, {len(points):,}, {mode}: {without:.4f}, {lowest}, {found['plans']}", flush=True)
        if arguments.json:
            arguments.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
