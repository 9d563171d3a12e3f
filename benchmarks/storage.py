"""Compare the storage proxy with a stock `chroma run`: the same data, the same work, in one run.

    python -m benchmarks.storage [--quick] [--rows section,half-page] [--json figures.json]

Both services run with their defaults on scratch directories and answer the same prepared requests over kept connections
(`benchmarks/clients.py`). They take turns, and while one works the other is idle. Values are medians over the rounds;
the ratio of each round is shown as a spread, because the speed of a shared machine varies.

Loading the documents is the measurement of `add`: both collections grow together, block by block. A block goes in as
batches of 100 from one client, of 20 from one or of 20 from 8 clients, in turn, first into one service, then into the
other; the order changes with the next turn. So each way of adding is measured over the whole growth of the collection,
on both sides at the same sizes. A block has ended when all of it is in the index: an answer "not yet indexed" (202)
gains nothing.

After the reads the index is rebuilt, then readers are measured beside writers (`benchmarks/mixed.py`), and at last both
services are restarted.

Recall is measured against the exact answer, on answers that are not timed; they also warm both sides up. `growth`
compares this service with another instance of itself that holds the first tenth of the documents.

A missed target is a figure, not an error: the exit code is 0 unless something failed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks import report
from benchmarks.clients import Connection, RefusedError, Work, do_together
from benchmarks.data import SECTION, SEED, TOP_K, Corpus
from benchmarks.lifecycle import measure_rebuild, measure_restart
from benchmarks.measuring import BY_KEY, READS, ROWS, Result, Samples, in_turn, work_for
from benchmarks.mixed import late_documents, measure_mixed, measure_written, written_documents
from benchmarks.peer import PAGE, ChromaSide, OurSide, Side, chroma_run
from benchmarks.processes import ProcessMemory, cpu_seconds, memory_of
from interfaces.commands.scratch_service import processes_in, scratch_service
from schemas.errors import RagError

CLIENTS = 8
BLOCK = 2_000
READ_SECONDS, QUERY_SECONDS, POLL_SECONDS = 1.0, 3.0, 0.02
QUERIES, FILTERED_RECALL_QUERIES = 300, 100
ADDS = {"add-100": (100, 1), "add-20-alone": (20, 1), "add-20": (20, CLIENTS)}
PREPARED = 500
FIELDS = {"ten": "ten", "thou": "thou", "half": "half", "alone": None, "unfiltered": None}


SamplesByRow = dict[str, tuple[Samples, Samples]]
"""Our samples and theirs for each row of the table."""


class Comparison:
    """Two sides with the same documents. Measurements go into `samples`."""

    def __init__(
        self, corpus: Corpus, sides: Sequence[Side], samples: SamplesByRow, say: Callable[[str], None]
    ) -> None:
        self._corpus, self._sides, self._say = corpus, sides, say
        self._pids = [processes_in(side.directory) for side in sides]
        self._samples = samples

    def load(self) -> None:
        """Store all documents on both sides, block by block, and fill the rows of `add`."""
        for side in self._sides:
            side.create()
        started = time.perf_counter()
        for number, start in enumerate(range(0, self._corpus.count, BLOCK)):
            block = range(start, min(start + BLOCK, self._corpus.count))
            turn, kind = divmod(number, len(ADDS))
            row = list(ADDS)[kind]
            for place in in_turn(turn):
                self._load_block(row, place, block)
            if kind == len(ADDS) - 1 or block.stop == self._corpus.count:
                rates = " ".join(
                    f"{row} {ours.rounds[-1]:.0f} : {theirs.rounds[-1]:.0f}/s"
                    for row, (ours, theirs) in self._samples.items()
                    if row in ADDS and ours.rounds
                )
                seconds = time.perf_counter() - started
                self._say(f"{block.stop:,} of {self._corpus.count:,} documents after {seconds:.0f} s; {rates}")

    def _load_block(self, row: str, place: int, block: range) -> None:
        size, clients = ADDS[row]
        side = self._sides[place]
        works = [side.add(self._corpus, block[start : start + size]) for start in range(0, len(block), size)]
        # Client n takes every n-th batch: the collection grows in about the same order as with one client.
        before = self.cpu(place)
        together = do_together(side.url, [works[client::clients] for client in range(clients)])
        answered = time.perf_counter()
        while not side.is_settled():
            time.sleep(POLL_SECONDS)
        settling = time.perf_counter() - answered
        self._samples[row][place].add_rate(len(block), together, self.cpu(place) - before, settling)

    def measure_recall(self, rows: Sequence[str]) -> None:
        for row in rows:
            field = FIELDS[row]
            for place, side in enumerate(self._sides):
                connection = Connection(side.url)
                queries = self._corpus.queries[: QUERIES if field is None else FILTERED_RECALL_QUERIES]
                found = [side.ids(connection.do(side.query(query, field))[0])[0] for query in queries]
                connection.close()
                recalls = [self._corpus.recall(query, field, ids) for query, ids in zip(queries, found, strict=True)]
                self._samples[row][place].recall = sum(recalls) / len(recalls)
            ours, theirs = (each.recall for each in self._samples[row])
            self._say(f"recall@{TOP_K} of {row}: {ours:.4f} : {theirs:.4f}")

    def measure_reads(self, rows: Sequence[str]) -> None:
        connections = [Connection(side.url) for side in self._sides]
        for row in rows:
            self._check_answers(row, connections)
            works = [_endless(partial(self._work, side, row)) for side in self._sides]
            for number in range(BY_KEY[row].rounds):
                for place in in_turn(number):
                    before = self.cpu(place)
                    together = work_for(connections[place], works[place], READ_SECONDS, BY_KEY[row].fewest)
                    self._samples[row][place].add_latencies(together, self.cpu(place) - before)
            ours, theirs = self._samples[row]
            self._say(f"{row}: {ours.value:.2f} : {theirs.value:.2f} ms")
        for connection in connections:
            connection.close()

    def measure_unfiltered(self) -> None:
        works = [[side.query(query, None) for query in self._corpus.queries] for side in self._sides]
        for number in range(BY_KEY["unfiltered"].rounds):
            for place in in_turn(number):
                each = [works[place][client::CLIENTS] for client in range(CLIENTS)]
                before = self.cpu(place)
                together = do_together(self._sides[place].url, each, QUERY_SECONDS)
                cpu = self.cpu(place) - before
                self._samples["unfiltered"][place].add_rate(len(together.latencies_seconds), together, cpu)
        ours, theirs = self._samples["unfiltered"]
        self._say(f"unfiltered, {CLIENTS} clients: {ours.value:.0f} : {theirs.value:.0f} requests/s")

    def cpu(self, place: int) -> float:
        """Return the seconds of processor time that this side's processes have taken so far."""
        return cpu_seconds(self._pids[place])

    def _work(self, side: Side, row: str, generator: random.Random) -> Work:
        if row == "section":
            return side.section(generator.randrange(self._corpus.sections))
        if row == "half-page":
            return side.half_page(generator.randrange(2))
        if row == "facets":
            return side.facets(self._corpus.count)
        query = generator.choice(self._corpus.queries)
        return (
            side.gather(query, self._corpus.sections_near(query)) if row == "gather" else side.query(query, FIELDS[row])
        )

    def _check_answers(self, row: str, connections: Sequence[Connection]) -> None:
        """Check that both sides give the same answer, without which their speeds mean nothing."""
        if row not in ("section", "half-page"):
            return
        for seed in range(5):
            answers = []
            for side, connection in zip(self._sides, connections, strict=True):
                ids, total = side.ids(connection.do(self._work(side, row, random.Random(seed)))[0])
                answers.append((len(ids), set(ids) if row == "section" else None, total))
            ours, theirs = answers
            expected = SECTION if row == "section" else PAGE
            if ours[:2] != theirs[:2] or ours[0] != expected or (row == "half-page" and ours[2] != theirs[2]):
                raise RefusedError(f"The answers to {row} differ: {ours} and {theirs}")


def measure_growth(corpus: Corpus, large: OurSide, directory: Path, samples: tuple[Samples, Samples]) -> None:
    """Measure sections of the loaded service and of another one with a tenth of its documents, in turn."""
    with scratch_service(directory) as service:
        small = OurSide(service.url, directory)
        small.create()
        pids = [processes_in(side.directory) for side in (large, small)]
        documents = corpus.count // 10
        loading = Connection(small.url)
        for start in range(0, documents, 100):
            loading.do(small.add(corpus, range(start, min(start + 100, documents))))
        loading.close()
        connections = [Connection(large.url), Connection(small.url)]
        sections = (corpus.sections, documents // SECTION)
        works = [
            _endless(partial(_any_section, side, number)) for side, number in zip((large, small), sections, strict=True)
        ]
        for number in range(BY_KEY["growth"].rounds + 1):
            for place in in_turn(number):
                before = cpu_seconds(pids[place])
                together = work_for(connections[place], works[place], READ_SECONDS)
                if number > 0:
                    samples[place].add_latencies(together, cpu_seconds(pids[place]) - before)
        for connection in connections:
            connection.close()


@contextmanager
def _started(directory: Path) -> Iterator[str]:
    with scratch_service(directory, wait=False) as service:
        yield service.url


def _any_section(side: Side, sections: int, generator: random.Random) -> Work:
    return side.section(generator.randrange(sections))


def _endless(make: Callable[[random.Random], Work]) -> Iterator[Work]:
    """Yield the same random work for either side, prepared before anything is timed."""
    generator = random.Random(SEED)
    return cycle([make(generator) for _ in range(PREPARED)])


def run(arguments: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Measure and report. After a failure, the measurements until then are reported too."""
    machine, memory = report.machine(), dict[str, list[ProcessMemory]]()
    rows = [row for row in ROWS if row.key in arguments.rows]
    say(f"making {arguments.documents:,} documents of {arguments.dimension} dimensions")
    corpus = Corpus(arguments.documents, arguments.dimension, QUERIES)
    samples: SamplesByRow = {row.key: (Samples(), Samples()) for row in ROWS}
    try:
        _measure(arguments, corpus, [row.key for row in rows], samples, memory, say)
    finally:
        machine["documents"] = (
            f"{corpus.count:,} of {arguments.dimension} dimensions, about 1 KB of text, 7 metadata fields"
        )
        results = [Result(row, *samples[row.key]) for row in rows if all(each.rounds for each in samples[row.key])]
        report.conclude(machine, results, memory, arguments.json)


def _measure(
    arguments: argparse.Namespace,
    corpus: Corpus,
    wanted: Sequence[str],
    samples: SamplesByRow,
    memory: dict[str, list[ProcessMemory]],
    say: Callable[[str], None],
) -> None:
    with ExitStack() as stack, ExitStack() as running:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.directory)))
        places = [scratch / name for name in ("ours", "theirs", "tenth")]
        for place in places:
            place.mkdir()
        say("starting both services")
        ours = OurSide(running.enter_context(scratch_service(places[0])).url, places[0])
        theirs = ChromaSide(running.enter_context(chroma_run(places[1])), places[1])
        sides: tuple[Side, Side] = (ours, theirs)
        comparison = Comparison(corpus, sides, samples, say)
        comparison.load()
        memory["after loading"] = [each for side in sides for each in memory_of(side.name, side.directory)]
        comparison.measure_recall([row for row in wanted if row in FIELDS])
        comparison.measure_reads([row for row in wanted if row in READS])
        if "unfiltered" in wanted:
            comparison.measure_unfiltered()
        memory["after the queries"] = [each for side in sides for each in memory_of(side.name, side.directory)]
        if "growth" in wanted:
            measure_growth(corpus, ours, places[2], samples["growth"])
        if "rebuild" in wanted:
            measure_rebuild(ours, corpus.count, samples["add-100"][1], samples["rebuild"])
        if "written" in wanted:
            late = Corpus(written_documents(BY_KEY["written"].rounds), arguments.dimension, 0, name="written-")
            measure_written(corpus, late, sides, comparison.cpu, samples["written"])
        if "mixed" in wanted:
            late = Corpus(late_documents(BY_KEY["mixed"].rounds), arguments.dimension, 0, name="late-")
            measure_mixed(corpus, late, sides, comparison.cpu, samples["mixed"])
        if "restart" in wanted:
            running.close()
            starts = (partial(_started, places[0]), partial(chroma_run, places[1], wait=False))
            for side, start, of_side in zip(sides, starts, samples["restart"], strict=True):
                measure_restart(corpus, side, start, of_side)


def main() -> int:
    keys = [row.key for row in ROWS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--quick", action="store_true", help="10,000 documents")
    parser.add_argument("--rows", type=lambda text: text.split(","), default=keys, help=f"of {','.join(keys)}")
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    parser.add_argument("--directory", type=Path, help="where the scratch directories are made; default: the system's")
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - set(keys)
    if unknown:
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    if arguments.quick:
        arguments.documents = 10_000
    # Both services and their directories must go with this process, also when it is ended by SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        run(arguments, lambda line: print(line, flush=True))
    except (RefusedError, RagError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
