"""Measure adds that need not wait for the index:
`python -m benchmarks.chroma_client.bulk_adds [--documents 20000] [--batch 100] [--records vectors]`.

One client adds the same documents to this service and to a stock `chroma run`, in turns of a block each: here with
`?wait=commit` by one kept connection, there by chromadb's `HttpClient`. Of this service there are two times, until the
last batch of a block is answered and until the index has it all; Chroma answers when it has stored what it was sent.
With `--records vectors` the engine here gets ids and vectors only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.chroma_client.sides import ClientSide, exit_code
from benchmarks.clients import Connection, RefusedError
from benchmarks.data import Corpus
from benchmarks.measuring import in_turn
from benchmarks.peer import OurSide, chroma_run
from benchmarks.processes import cpu_seconds
from interfaces.commands.scratch_service import processes_in, scratch_service
from schemas.storage.engine_records import ENGINE_RECORDS, FULL

BLOCK = 4_000
POLL_SECONDS = 0.25
LONGEST_SECONDS = 600.0
OURS, THEIRS = 0, 1


class Comparison:
    """Two sides. `seconds` are those of all blocks so far: here until they were answered, and indexed; there."""

    def __init__(self, corpus: Corpus, batch: int, ours: OurSide, theirs: ClientSide) -> None:
        self._corpus, self._batch = corpus, batch
        self._ours, self._theirs = ours, theirs
        self.seconds = [0.0, 0.0, 0.0]
        self.cpu = [0.0, 0.0]
        self.done = 0

    def run(self, block: range, number: int) -> None:
        parts = [block[start : start + self._batch] for start in range(0, len(block), self._batch)]
        for place in in_turn(number):
            directory = (self._ours, self._theirs)[place].directory
            pids = processes_in(directory)
            before = cpu_seconds(pids)
            (self._add_here if place == OURS else self._add_there)(parts)
            self.cpu[place] += cpu_seconds(pids) - before
        self.done += len(block)

    def report(self) -> str:
        answered, indexed, theirs = (self.done / seconds for seconds in self.seconds)
        ours_ms, theirs_ms = (1e3 * seconds / self.done for seconds in self.cpu)
        return (
            f"{self.done:,} documents: answered {answered:.0f}/s ({answered / theirs:.1f} x), indexed {indexed:.0f}/s "
            f"({indexed / theirs:.2f} x), chroma run {theirs:.0f}/s; processor {ours_ms:.2f} : {theirs_ms:.2f} ms"
        )

    def _add_here(self, parts: list[range]) -> None:
        requests = [request for part in parts for request in self._ours.add(self._corpus, part, wait="commit")]
        connection = Connection(self._ours.url)  # one that was idle in between may be closed by now
        started = time.perf_counter()
        for request in requests:
            connection.call(request)
        connection.close()
        self.seconds[0] += time.perf_counter() - started
        while not self._ours.is_settled():
            if time.perf_counter() - started > LONGEST_SECONDS:
                raise RefusedError("The index does not catch up")
            time.sleep(POLL_SECONDS)
        self.seconds[1] += time.perf_counter() - started

    def _add_there(self, parts: list[range]) -> None:
        adds = [self._theirs.add(self._corpus, part) for part in parts]
        started = time.perf_counter()
        for add in adds:
            add()
        self.seconds[2] += time.perf_counter() - started


def run(arguments: argparse.Namespace) -> None:
    """Measure and print the rates after each block."""
    corpus = Corpus(arguments.documents, arguments.dimension, 1)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.directory)))
        places = [scratch / name for name in ("ours", "theirs")]
        for place in places:
            place.mkdir()
        service = stack.enter_context(scratch_service(places[OURS], engine_records=arguments.records))
        ours = OurSide(service.url, places[OURS])
        theirs = ClientSide("chroma run", stack.enter_context(chroma_run(places[THEIRS])), places[THEIRS])
        ours.create()
        comparison = Comparison(corpus, arguments.batch, ours, theirs)
        for number, start in enumerate(range(0, corpus.count, BLOCK)):
            comparison.run(range(start, min(start + BLOCK, corpus.count)), number)
            print(comparison.report(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--records", choices=ENGINE_RECORDS, default=FULL)
    parser.add_argument("--directory", type=Path, help="where the scratch directories are made; default: the system's")
    arguments = parser.parse_args()
    return exit_code(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
