"""Measure what a client of Chroma's own gets from this service and from a stock `chroma run`:
`python -m benchmarks.chroma_client [--documents 100000]`.

Both sides hold the same documents and are asked the same through chromadb's `HttpClient`, taking turns. The time of a
call includes the client's own work. Collections grow together, block by block, in batches of 100 or 1,000 documents.
`all` and `all-texts` get everything without a limit; with them, the memory is printed that the processes of a side take
at most meanwhile. A missed target is a figure, not an error.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import report
from benchmarks.chroma_client.sides import Call, ClientSide, exit_code, ids_of
from benchmarks.clients import RefusedError, Together
from benchmarks.data import SEED, Corpus
from benchmarks.measuring import LATENCY, RATE, Result, Row, Samples, in_turn
from benchmarks.peer import chroma_run
from benchmarks.processes import ProcessMemory, cpu_seconds, memory_of
from interfaces.commands.scratch_service import scratch_service

BLOCK = 2_000
QUERIES = 200
RECALL_QUERIES = 100
READ_SECONDS = 1.0
ADDS = {"add-100": 100, "add-1000": 1_000}
FIELDS = {"ten": "ten", "thou": "thou", "half": "half", "unfiltered": None}
ROWS = (
    Row("section", "get by where: a section of 10, p50", "ms", LATENCY, 10.0),
    Row("ten", "query k=10, filter 10 matches, p50", "ms", LATENCY, 5.0, 1.0),
    Row("thou", "query k=10, filter 1,000 matches, p50", "ms", LATENCY, 5.0, 1.0),
    Row("half", "query k=10, filter 50 % match, p50", "ms", LATENCY, 5.0, 0.99),
    Row("unfiltered", "query k=10, no filter, p50", "ms", LATENCY, 1.0, 0.99),
    Row("contains", "get, where_document $contains, one matches, p50", "ms", LATENCY, 0.5),
    Row("contains-all", "get, $contains, all match, limit 10, p50", "ms", LATENCY, 0.5),
    Row("contains-query", "query k=10, $contains, some 3 % match, p50", "ms", LATENCY, 0.5, rounds=5, fewest=2),
    Row("regex", "get, where_document $regex, one matches, p50", "ms", LATENCY, 0.5, rounds=5, fewest=2),
    Row("all-texts", "get of everything without embeddings", "ms", LATENCY, rounds=3, fewest=1),
    Row("all", "get of everything with embeddings", "ms", LATENCY, rounds=3, fewest=1),
    Row("add-100", "add, batches of 100", "docs/s", RATE, 0.9),
    Row("add-1000", "add, batches of 1,000", "docs/s", RATE, 0.9),
)
WHOLE = ("all-texts", "all")
SamplesByRow = dict[str, tuple[Samples, Samples]]
Say = Callable[[str], None]


class Comparison:
    """Two sides with the same documents. Measurements go into `samples`."""

    def __init__(self, corpus: Corpus, sides: Sequence[ClientSide], samples: SamplesByRow, say: Say) -> None:
        self._corpus, self._sides, self._samples, self._say = corpus, sides, samples, say

    def load(self) -> None:
        for number, start in enumerate(range(0, self._corpus.count, BLOCK)):
            block = range(start, min(start + BLOCK, self._corpus.count))
            row = list(ADDS)[number % 2]
            size = ADDS[row]
            for place in in_turn(number // 2):
                adds = [
                    self._sides[place].add(self._corpus, block[first : first + size])
                    for first in range(0, len(block), size)
                ]
                before = self._cpu(place)
                together = _timed(adds, seconds=float("inf"))
                self._samples[row][place].add_rate(len(block), together, self._cpu(place) - before)
            if number % 10 == 9 or block.stop == self._corpus.count:
                rates = ", ".join(
                    f"{row} {ours.value:.0f} : {theirs.value:.0f}/s"
                    for row, (ours, theirs) in self._samples.items()
                    if row in ADDS and ours.rounds
                )
                self._say(f"{block.stop:,} of {self._corpus.count:,} documents; {rates}")

    def measure(self, row: Row) -> None:
        """Measure one row of reads in turns, after the first answers of both were compared with the right ones."""
        if row.key in FIELDS:
            self._measure_recall(row.key)
        calls = [self._calls(row.key, side) for side in self._sides]
        if row.key not in FIELDS and row.key != "contains-query":
            found = [sorted(ids_of(each[0]())) for each in calls]
            if len(found[0]) != len(found[1]) or (row.key != "contains-all" and found[0] != found[1]):
                raise RefusedError(f"The answers to {row.key} differ: {len(found[0])} and {len(found[1])} documents")
        for number in range(row.rounds):
            for place in in_turn(number):
                first = number * row.fewest
                turned = calls[place][first % len(calls[place]) :] + calls[place][: first % len(calls[place])]
                before = self._cpu(place)
                together = _timed(turned, READ_SECONDS, row.fewest)
                self._samples[row.key][place].add_latencies(together, self._cpu(place) - before)
        self._tell(row.key)

    def measure_everything(self, row: Row) -> None:
        """Measure the `get` of everything, and print the memory that it takes."""
        for number in range(row.rounds):
            for place in in_turn(number):
                side = self._sides[place]
                side.forget_peaks()
                memory_before, before, started = side.resident_mb(peak=False), self._cpu(place), time.perf_counter()
                requests = side.everything(with_embeddings=row.key == "all")
                seconds = time.perf_counter() - started
                self._samples[row.key][place].add_latencies(
                    Together([[seconds]], seconds, Counter()), self._cpu(place) - before
                )
                grown = side.resident_mb(peak=True) - memory_before
                self._say(f"{row.key}, {side.name}: {requests} requests, {seconds:.1f} s, at most {grown:.0f} MB more")
        self._tell(row.key)

    def _measure_recall(self, row: str) -> None:
        field = FIELDS[row]
        queries = self._corpus.queries[:RECALL_QUERIES]
        for place, side in enumerate(self._sides):
            recalls = [self._corpus.recall(query, field, ids_of(side.query(query, field)())) for query in queries]
            self._samples[row][place].recall = sum(recalls) / len(recalls)

    def _calls(self, row: str, side: ClientSide) -> list[Call]:
        generator = random.Random(SEED)
        corpus = self._corpus
        chosen = [generator.randrange(corpus.count) for _ in range(QUERIES)]
        if row == "section":
            return [side.section(number // 10) for number in chosen]
        if row in FIELDS:
            return [side.query(query, FIELDS[row]) for query in corpus.queries]
        texts = [corpus.texts(range(number, number + 1))[0].split() for number in chosen]
        # Four words in a row are in one document alone; the second and third of them are whole words.
        phrases = [" ".join(words[20:24])[1:-1] for words in texts]
        if row == "contains":
            return [side.with_text({"$contains": phrase}, None) for phrase in phrases]
        if row == "contains-all":
            return [side.with_text({"$contains": letter}, 10) for letter in "aeiou"]
        if row == "regex":
            return [side.with_text({"$regex": phrase.replace(" ", r"\s+")}, None) for phrase in phrases]
        return [
            side.near_with_text(query, {"$contains": words[20]})
            for query, words in zip(corpus.queries, texts, strict=True)
        ]

    def _cpu(self, place: int) -> float:
        return cpu_seconds(self._sides[place].pids)

    def _tell(self, row: str) -> None:
        ours, theirs = self._samples[row]
        self._say(f"{row}: {ours.value:.2f} : {theirs.value:.2f} ms, ratio {theirs.value / ours.value:.2f}")


def _timed(calls: Sequence[Call], seconds: float, fewest: int = 1) -> Together:
    """Make calls one after the other for `seconds`, but at least the `fewest`."""
    latencies: list[float] = []
    for call in calls:
        started = time.perf_counter()
        call()
        latencies.append(time.perf_counter() - started)
        if sum(latencies) >= seconds and len(latencies) >= fewest:
            break
    return Together([latencies], sum(latencies), Counter())


def run(arguments: argparse.Namespace, say: Say) -> None:
    """Measure and report. After a failure, the measurements until then are reported too."""
    machine, memory = report.machine(), dict[str, list[ProcessMemory]]()
    corpus = Corpus(arguments.documents, arguments.dimension, QUERIES)
    samples: SamplesByRow = {row.key: (Samples(), Samples()) for row in ROWS}
    try:
        _measure(arguments, corpus, samples, memory, say)
    finally:
        machine["documents"] = f"{corpus.count:,} of {arguments.dimension} dimensions, about 1 KB of text, 7 fields"
        results = [Result(row, *samples[row.key]) for row in ROWS if all(each.rounds for each in samples[row.key])]
        report.conclude(machine, results, memory, arguments.json)


def _measure(
    arguments: argparse.Namespace,
    corpus: Corpus,
    samples: SamplesByRow,
    memory: dict[str, list[ProcessMemory]],
    say: Say,
) -> None:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.directory)))
        places = [scratch / name for name in ("ours", "theirs")]
        for place in places:
            place.mkdir()
        ours = stack.enter_context(scratch_service(places[0])).url
        theirs = stack.enter_context(chroma_run(places[1]))
        sides = [ClientSide("rag-wrapper", ours, places[0]), ClientSide("chroma run", theirs, places[1])]
        comparison = Comparison(corpus, sides, samples, say)
        comparison.load()
        for row in ROWS:
            if row.key not in arguments.rows:
                continue
            if row.key in WHOLE:
                comparison.measure_everything(row)
            elif row.key not in ADDS:
                comparison.measure(row)
        memory["at the end"] = [each for side in sides for each in memory_of(side.name, side.directory)]


def main() -> int:
    keys = [row.key for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=keys, help=f"of {','.join(keys)}")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    parser.add_argument("--directory", type=Path, help="where the scratch directories are made; default: the system's")
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(keys)
    if unknown:
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    return exit_code(lambda: run(arguments, lambda line: print(line, flush=True)))


if __name__ == "__main__":
    sys.exit(main())
