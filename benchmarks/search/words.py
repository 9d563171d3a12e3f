"""Ask the search by words each question of a query set in BEIR's layout, in this process, without embeddings.

    python -m benchmarks.search.words path/to/a/beir/folder [--catalog-url postgresql+psycopg://…] [--rounds 5]

The catalogue is a scratch one on SQLite, or an empty one on PostgreSQL, which is left filled. Each question is asked
once while its words are read from the tables, and once while those of the collection are held in memory.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.report import load, machine
from retrieval.bench.query_set import QuerySet, read_query_set
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import collection_writes
from wrapper.catalog.reads import by_positions
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.catalog.words.held import HeldWords
from wrapper.catalog.words.index import WordIndex
from wrapper.catalog.words.merging import QUIET_SECONDS, WordMerging

NAME, BATCH, LIMIT = "words", 500, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--catalog-url")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    questions = read_query_set(asked.folder)
    ways = {"tables": WordIndex(HeldWords(most_bytes=0)), "memory": WordIndex()}
    took: dict[str, list[float]] = {way: [] for way in ways}
    with ExitStack() as stack:
        if asked.catalog_url:
            from wrapper.catalog.postgres.database import PostgresDatabase

            catalog = Catalog(PostgresDatabase(asked.catalog_url))
        else:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            catalog = Catalog(SQLiteDatabase(directory / "catalog.sqlite"))
        stack.enter_context(closing(catalog))
        catalog.open()
        documents = fill(catalog, questions)
        for round_number in range(asked.rounds + 1):
            for way, index in ways.items():
                with catalog.read() as transaction:
                    milliseconds = ask(transaction, index, questions)
                if round_number:  # the first fills the caches
                    took[way] += milliseconds
    _print(took, f"{len(questions.queries)} questions, {documents} documents, {asked.rounds} rounds")


def fill(catalog: Catalog, questions: QuerySet) -> int:
    """Store the documents of a query set, merge their words as the service does, and return their number."""
    records = [orjson.loads(line) for line in questions.corpus.read_bytes().splitlines() if line.strip()]
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, NAME, {}, "cosine"))
    for start in range(0, len(records), BATCH):
        some = records[start : start + BATCH]
        batch = DocumentBatch(
            [each["_id"] for each in some],
            [each["text"] for each in some],
            [{"title": each.get("title", "")} for each in some],
            np.ones((len(some), 1), dtype="<f4"),
        )
        catalog.commit(partial(writes.add_documents, name=NAME, batch=batch))
    merging = WordMerging(catalog, partial(next, count(0.0, QUIET_SECONDS)))  # as if nobody wrote for a while
    while merging.step():
        pass
    return len(records)


def ask(transaction: Transaction, index: WordIndex, questions: QuerySet) -> list[float]:
    """Return the milliseconds that finding the best documents and reading them takes, for each question."""
    collection = find_collection(transaction, NAME)
    took = []
    for each in questions.queries:
        start = time.perf_counter()
        best, _ = index.best(transaction, collection, each.text, EVERYTHING, limit=LIMIT)
        by_positions(transaction, [found.position for found in best])
        took.append((time.perf_counter() - start) * 1e3)
    return took


def _print(took: dict[str, list[float]], title: str) -> None:
    table = Table("words from", "p50 ms", "p95 ms", "p99 ms", "max ms", title=title)
    for way, milliseconds in took.items():
        hundredths = statistics.quantiles(milliseconds, n=100, method="inclusive")
        shown = (hundredths[49], hundredths[94], hundredths[98], max(milliseconds))
        table.add_row(way, *(f"{value:.2f}" for value in shown))
    console = Console()
    console.print(table)
    console.print(f"{machine()}, load {load()}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
