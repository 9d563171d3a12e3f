"""Measure how the cost of reads grows with the collection, in this service and a stock `chroma run`.

    python -m benchmarks.growth [--sizes 10000,30000,100000,300000] [--json figures.json] [--svg growth.svg]

Both get the same documents, with short texts, which are quick to add; at each size, from 10,000 documents up, they take
turns in answering the same requests. `--plot figures.json` draws the figures of an earlier run instead.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from benchmarks import report
from benchmarks.clients import Connection, RefusedError, Work, do_together
from benchmarks.data import SEED, Corpus, Query, section_id
from benchmarks.measuring import in_turn, work_for
from benchmarks.peer import ChromaSide, OurSide, Side, chroma_run
from interfaces.commands.scratch_service import scratch_service
from schemas.errors import RagError

SIZES = (10_000, 30_000, 100_000, 300_000)
ROWS = {
    "section": "a section of 10",
    "half-page": "first 50 of 50 %, with total",
    "few": "query, 10 match",
    "half": "query, 50 % match",
    "unfiltered": "query, no filter",
}
WORDS_PER_TEXT = 15
BATCH, CLIENTS = 100, 4
ROUNDS, SECONDS = 5, 0.6
QUERIES = 200


def _work(side: Side, row: str, sections: int, corpus: Corpus, generator: random.Random) -> Work:
    if row == "section":
        return side.section(generator.randrange(sections))
    if row == "half-page":
        return side.half_page(generator.randrange(2))
    query = generator.choice(corpus.queries)
    if row == "few":
        few = {"section_id": section_id(generator.randrange(sections))}
        return side.query(Query(query.embedding, few), "section_id")
    return side.query(query, None if row == "unfiltered" else row)


def _load(side: Side, corpus: Corpus, part: range) -> None:
    for start in range(part.start, part.stop, 40 * BATCH):
        batches = range(start, min(start + 40 * BATCH, part.stop), BATCH)
        works = [side.add(corpus, range(first, min(first + BATCH, part.stop))) for first in batches]
        do_together(side.url, [works[client::CLIENTS] for client in range(CLIENTS)])


def _measure(sides: tuple[Side, Side], row: str, size: int, corpus: Corpus) -> list[float]:
    """Return the median milliseconds, ours and theirs."""
    connections = [Connection(side.url) for side in sides]
    works = []
    for side in sides:
        generator = random.Random(SEED)
        works.append([_work(side, row, size // 10, corpus, generator) for _ in range(QUERIES)])
    latencies: list[list[float]] = [[], []]
    for number in range(ROUNDS + 1):
        for place in in_turn(number):
            together = work_for(connections[place], works[place], SECONDS)
            if number > 0:
                latencies[place].append(statistics.median(together.latencies_seconds) * 1e3)
    for connection in connections:
        connection.close()
    return [statistics.median(each) for each in latencies]


def run(sizes: list[int], dimension: int, save: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    figures: dict[str, Any] = {"machine": report.machine(), "sizes": sizes, "rows": {row: [] for row in ROWS}}
    corpus = Corpus(sizes[-1], dimension, QUERIES, words_per_text=WORDS_PER_TEXT)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = [scratch / "ours", scratch / "theirs"]
        for place in places:
            place.mkdir()
        ours = OurSide(stack.enter_context(scratch_service(places[0])).url, places[0])
        theirs = ChromaSide(stack.enter_context(chroma_run(places[1])), places[1])
        sides: tuple[Side, Side] = (ours, theirs)
        for side in sides:
            side.create()
        before = 0
        for size in sizes:
            for side in sides:
                _load(side, corpus, range(before, size))
            before = size
            for row, title in ROWS.items():
                measured = _measure(sides, row, size, corpus)
                figures["rows"][row].append(measured)
                print(f"{size:>9,} documents, {title}: {measured[0]:.2f} : {measured[1]:.2f} ms", flush=True)
            save(figures)
    return figures


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw one small chart a row, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot

    figure, charts = pyplot.subplots(1, len(ROWS), figsize=(3 * len(ROWS), 3.2), sharey=True, layout="constrained")
    for chart, (row, title) in zip(charts, ROWS.items(), strict=True):
        for side, name, style in ((0, "rag-wrapper", "o-"), (1, "chroma run", "s--")):
            measured = [each[side] for each in figures["rows"][row]]
            chart.plot(figures["sizes"][: len(measured)], measured, style, label=name)
        chart.set(xscale="log", yscale="log", title=title, xlabel="documents")
        chart.grid(alpha=0.3)
    charts[0].set_ylabel("median, ms")
    charts[0].legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")], default=list(SIZES))
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, metavar="JSON", help="measure nothing, draw these figures")
    parser.add_argument("--svg", type=Path, help="draw the figures into this file (needs matplotlib)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def save(figures: dict[str, Any]) -> None:
        if arguments.json:
            arguments.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))

    try:
        if arguments.plot:
            figures = orjson.loads(arguments.plot.read_bytes())
        else:
            figures = run(arguments.sizes, arguments.dimension, save)
    except (RefusedError, RagError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    if arguments.svg:
        plot(figures, arguments.svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
