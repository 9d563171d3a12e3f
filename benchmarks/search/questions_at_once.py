"""Ask 100 questions at once, every one of them new, over 10,000 chunks: by the local model and by its int8 form.

    python -m benchmarks.search.questions_at_once [--chunks 10000] [--rounds 10]

The search is the fused one, over HTTP. Each model has a service of its own; both are filled alike and asked in turns,
so that both get the same of what the machine can do. In the first burst, which does not count, each worker loads its
model. The limit, 500 ms for the 99th percentile, is that of the int8 model.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection
from benchmarks.data import Corpus
from benchmarks.report import load, machine
from benchmarks.retrieval import CLIENTS, DIMENSION, burst, fill, ingest
from interfaces.commands.scratch_service import scratch_service

MODELS = ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2-int8")
LIMIT_MS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    questions = count()
    took: dict[str, list[float]] = {model: [] for model in MODELS}
    with ExitStack() as stack:
        urls = {}
        for model in MODELS:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            urls[model] = stack.enter_context(scratch_service(directory, embedding_model=model)).url
            connection = Connection(urls[model])
            ingest(connection, 1)
            fill(connection, Corpus(asked.chunks, DIMENSION, 1))
            connection.close()
            burst(urls[model], "fused", questions)
        for _ in range(asked.rounds):
            for model, url in urls.items():
                took[model] += burst(url, "fused", questions)
    _print(took, f"{CLIENTS} questions at once, {asked.chunks} chunks, {asked.rounds} rounds")


def _print(took: dict[str, list[float]], title: str) -> None:
    table = Table("model", "p50 ms", "p95 ms", "p99 ms", "max ms", "", title=title)
    for model, milliseconds in took.items():
        hundredths = statistics.quantiles(milliseconds, n=100, method="inclusive")
        shown = (hundredths[49], hundredths[94], hundredths[98], max(milliseconds))
        met = f"p99 {'<' if hundredths[98] < LIMIT_MS else '≥'} {LIMIT_MS}"
        table.add_row(model, *(f"{value:.0f}" for value in shown), met)
    console = Console()
    console.print(table)
    console.print(f"{machine()}, load {load()}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
