"""Measure the constants of the planner's cost model (`wrapper/querying/costs.py`) on this machine.

    python -m benchmarks.planner_costs [--documents 100000] [--dimensions 384,1536]

The planner's own three ways of answering a filtered query are timed in this process, with a catalogue and an engine of
its own, and so is reading all vectors into memory. `exact` and `memory` are asked with filters that 100 to 50,000
documents match; `index+filter` is made to ask the engine for 10 to 10,000 candidates, with a filter that all documents
match, so that it asks once. NumPy should have one thread, as in the service: set `OPENBLAS_NUM_THREADS=1`. All take
turns, round by round, and each figure is the lower quartile of its rounds: on a shared machine the slower ones show the
load of others. The constants are fitted by least squares of the relative error, because 1 ms is as wrong at 2 ms as
100 ms at 200 ms.

All ways begin and end alike (a transaction, the reading of the answer's documents). That part is fitted on the exact
side and subtracted from the bases of the others, so that the model's `exact` needs no base of its own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import TOP_K, Corpus
from benchmarks.report import load, machine
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING, Equals
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper
from wrapper.engine.nearest import EngineIndex
from wrapper.querying.base_codes import encoded
from wrapper.querying.costs import CostModel, codes_compared
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner, _Question
from wrapper.querying.waiting_writes import Waiting

MATCHES = (100, 300, 1_000, 3_000, 10_000, 30_000, 50_000)
CANDIDATES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
QUERIES, BATCH, NAME = 100, 1_000, "costs"
ROUNDS = 15
MEMORY_IS_CHEAP = CostModel(memory_base=-1e12)
EVERY_DOCUMENT = "all"
LARGEST_OUTBOX = 1_000_000

Ask = Callable[[int], None]
Figure = tuple[int, int, float]
"""One measurement: (dimension, matches or candidates, milliseconds)."""


def measure(
    arguments: argparse.Namespace, dimension: int, *, with_index: bool
) -> tuple[list[Figure], list[Figure], list[Figure], list[Figure]]:
    """Return the figures of `exact`, of `index+filter` (none without an index), of `memory` and of reading into it."""
    corpus = Corpus(arguments.documents, dimension, QUERIES)
    exact: list[Figure] = []
    indexed: list[Figure] = []
    held: list[Figure] = []
    reading: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory, _catalog(Path(directory)) as catalog:
        ranks = np.random.default_rng(0).permutation(corpus.count)
        _fill(catalog, corpus, ranks)
        with _engine(Path(directory), catalog, corpus if with_index else None) as index:
            planner = Planner(catalog, index, MEMORY_IS_CHEAP, HeldVectors(corpus.embeddings.nbytes))
            asked: list[tuple[list[Figure], int, Ask]] = [
                (exact, matches, partial(_ask_exact, planner, corpus, matches))
                for matches in MATCHES
                if matches <= corpus.count
            ]
            asked += [
                (held, matches, partial(_ask_memory, catalog, planner, corpus, matches))
                for matches in MATCHES
                if matches <= corpus.count
            ]
            asked += [
                (indexed, candidates, partial(_ask_index, catalog, planner, corpus, candidates))
                for candidates in CANDIDATES
                if with_index and candidates <= corpus.count
            ]
            asked.append((reading, corpus.count, partial(_ask_reading, catalog)))
            for (figures, number, _), milliseconds in zip(asked, _time([ask for *_, ask in asked]), strict=True):
                figures.append((dimension, number, milliseconds))
    return exact, indexed, held, reading


def fit(
    exact: Sequence[Figure],
    indexed: Sequence[Figure],
    held: Sequence[Figure],
    reading: Sequence[Figure],
    documents: int,
) -> CostModel:
    """Return the model whose times have the least relative error to the measured ones."""
    several = len({dimension for dimension, _, _ in exact}) > 1
    terms = [[1.0, matches, matches * dimension] if several else [1.0, matches] for dimension, matches, _ in exact]
    shared, per_document, *per_component = _least_squares(terms, [milliseconds for *_, milliseconds in exact])
    base, per_candidate = _least_squares([[1.0, n] for _, n, _ in indexed], [each for *_, each in indexed])
    terms = [[1.0, dimension * codes_compared(documents, matches), matches] for dimension, matches, _ in held]
    memory = _least_squares(terms, [milliseconds for *_, milliseconds in held])
    terms = [[number, number * dimension] if several else [number] for dimension, number, _ in reading]
    read_document, *read_component = _least_squares(terms, [each for *_, each in reading])
    print(f"\nwhat all ways share: {shared:.2f} ms; the index's whole base: {base:.2f} ms")
    return CostModel(
        exact_per_document=per_document,
        exact_per_component=per_component[0] if per_component else 0.0,
        index_base=max(0.0, base - shared),
        index_per_candidate=per_candidate,
        memory_base=max(0.0, memory[0] - shared),
        memory_per_component=memory[1],
        memory_per_match=memory[2],
        reading_per_document=read_document,
        reading_per_component=read_component[0] if read_component else 0.0,
    )


def _least_squares(terms: Sequence[Sequence[float]], milliseconds: Sequence[float]) -> list[float]:
    """Return the coefficient of each term. A negative one, which no cost can have, is 0 instead."""
    measured = np.array(milliseconds)
    weighted = np.array(terms) / measured[:, None]
    used = list(range(weighted.shape[1]))
    while True:
        solution, *_ = np.linalg.lstsq(weighted[:, used], np.ones(len(measured)), rcond=None)
        kept = [column for column, value in zip(used, solution, strict=True) if value >= 0]
        if kept == used:
            return [float(solution[used.index(column)]) if column in used else 0.0 for column in range(len(terms[0]))]
        used = kept


def _ask_exact(planner: Planner, corpus: Corpus, matches: int, number: int) -> None:
    planner._exactly(_question(corpus, number, _among(matches)), "exact")


def _ask_memory(catalog: Catalog, planner: Planner, corpus: Corpus, matches: int, number: int) -> None:
    with catalog.read() as transaction:
        collection = find_collection(transaction, NAME)
        question = _question(corpus, number, _among(matches))
        found = planner._from_memory(question, transaction, collection, matches, corpus.count)
    assert found is not None


def _ask_reading(catalog: Catalog, _number: int) -> None:
    with catalog.read() as transaction:
        assert encoded(transaction, find_collection(transaction, NAME), lambda: False) is not None


def _ask_index(catalog: Catalog, planner: Planner, corpus: Corpus, candidates: int, number: int) -> None:
    with catalog.read() as transaction:
        collection = find_collection(transaction, NAME)
    found = planner._from_index(
        _question(corpus, number, EVERY_DOCUMENT),
        collection,
        "index+filter",
        corpus.count,
        Waiting(frozenset(), []),
        candidates,
        float("inf"),
    )
    assert found is not None


def _question(corpus: Corpus, number: int, field: str) -> _Question:
    embedding = corpus.queries[number % QUERIES].embedding
    return _Question(NAME, embedding, (), TOP_K, Equals(field, 1), None, None, False, EVERYTHING)


def _time(asks: Sequence[Ask]) -> list[float]:
    """Return the milliseconds of each request, as the lower quartile of all rounds but the first."""
    taken: list[list[float]] = [[] for _ in asks]
    for number in range(ROUNDS + 1):
        for ask, mine in zip(asks, taken, strict=True):
            started = time.perf_counter()
            ask(number)
            mine.append((time.perf_counter() - started) * 1e3)
        print(f"round {number} of {ROUNDS}", flush=True)
    return [statistics.quantiles(mine[1:], n=4)[0] for mine in taken]


def _among(matches: int) -> str:
    return f"among_{matches}"


def _fill(catalog: Catalog, corpus: Corpus, ranks: NDArray[np.int64]) -> None:
    print(f"storing {corpus.count:,} documents of {corpus.embeddings.shape[1]} dimensions", flush=True)
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, NAME, {}, "cosine"))
    for part in _parts(corpus):
        metadatas = corpus.metadatas(part)
        for n, metadata in zip(part, metadatas, strict=True):
            metadata |= {EVERY_DOCUMENT: 1, **{_among(matches): 1 for matches in MATCHES if ranks[n] < matches}}
        batch = DocumentBatch(corpus.ids(part), corpus.texts(part), metadatas, corpus.embeddings[part])
        catalog.commit(partial(writes.add_documents, name=NAME, batch=batch))


@contextmanager
def _catalog(directory: Path) -> Iterator[Catalog]:
    catalog = Catalog(SQLiteDatabase(directory / "catalog.sqlite"))
    catalog.open()
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def _engine(directory: Path, catalog: Catalog, corpus: Corpus | None) -> Iterator[EngineIndex]:
    """Start the engine with the corpus's vectors and yield its index. Without a corpus nothing is started or ready."""
    reader = EngineStateReader(directory)
    client = EngineClient(reader.url)
    index = EngineIndex(client, lambda: reader.read().ready)
    if corpus is None:
        yield index
        return
    keeper = start_keeper(directory)
    try:
        while not reader.read().ready:
            time.sleep(0.05)
        print("storing them in the engine", flush=True)
        engine_id = client.create_collection(NAME, metric="cosine")
        for part in _parts(corpus):
            # Texts make most of the engine's cost of a write and none of the cost of a query.
            client.upsert(engine_id, corpus.ids(part), corpus.embeddings[part], [""] * len(part), [{} for _ in part])
        catalog.commit(partial(_settle, engine_id=engine_id))
        yield index
    finally:
        keeper.stop()


def _settle(transaction: Transaction, engine_id: str) -> None:
    """Record that the engine has everything."""
    key = find_collection(transaction, NAME).key
    states.set_engine_collection(transaction, key, engine_id, states.READY)
    outbox.remove(transaction, [entry.id for entry in outbox.of_collection(transaction, key, limit=LARGEST_OUTBOX)])


def _parts(corpus: Corpus) -> Iterator[range]:
    return (range(start, min(start + BATCH, corpus.count)) for start in range(0, corpus.count, BATCH))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--dimensions", type=lambda text: [int(each) for each in text.split(",")], default=[384, 1536])
    parser.add_argument("--directory", type=Path, help="where the scratch directories are made; default: the system's")
    arguments = parser.parse_args()
    for name, value in machine().items():
        print(f"{name:>18}: {value}")
    exact: list[Figure] = []
    indexed: list[Figure] = []
    held: list[Figure] = []
    reading: list[Figure] = []
    for place, dimension in enumerate(arguments.dimensions):
        # The index is measured at the first dimension only: ids and hops determine its cost more than components do.
        exact_here, indexed_here, held_here, reading_here = measure(arguments, dimension, with_index=place == 0)
        exact += exact_here
        indexed += indexed_here
        held += held_here
        reading += reading_here
    costs = fit(exact, indexed, held, reading, arguments.documents)
    print(f"{'load at the end':>18}: {load()}\n")
    print(" dimension     number  measured ms  model ms")
    for plan, figures, model in (
        ("exact", exact, lambda dimension, number: costs.exact(number, dimension)),
        ("index", indexed, lambda dimension, number: costs.index(number)),
        ("memory", held, lambda dimension, number: costs.memory(arguments.documents, dimension, number, TOP_K)),
        ("reading", reading, lambda dimension, number: costs.reading(number, dimension)),
    ):
        for dimension, number, milliseconds in figures:
            print(f"{dimension:10} {number:10,} {milliseconds:12.2f} {model(dimension, number):9.2f}  {plan}")
    print("\nCostModel(")
    for each in fields(costs):
        print(f"    {each.name}={getattr(costs, each.name):.3g},")
    print(")")


if __name__ == "__main__":
    main()
