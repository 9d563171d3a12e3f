"""Measure writers beside each other: `python -m benchmarks.writers [--than path/to/another/rag-wrapper]`.

Eight clients add batches of documents at once, and wait until these are committed: to a service with two workers, or,
with `--catalog-url` of an empty PostgreSQL database, four to each of two services that share it and a Chroma server.
`--than` names the command of another installation, which takes turns with this one (with a database of its own, the
second `--catalog-url`); then medians of the ratios of all rounds are printed. The index catches up between rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.chroma_client.sides import exit_code
from benchmarks.clients import do_together
from benchmarks.data import SEED, Corpus
from benchmarks.measuring import Samples, in_turn
from benchmarks.peer import OurSide, chroma_run
from benchmarks.processes import cpu_seconds
from interfaces.commands.scratch_service import command, processes_in, scratch_service
from schemas.words.stop_words import STOP_WORDS

LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "sv")
STOP_WORD_SHARE, CHARACTERS = 0.45, 1_500
POLL_SECONDS = 0.1


class Languages(Corpus):
    """Documents of 1,500 characters in eight languages, which their metadata do not name."""

    def texts(self, part: Sequence[int]) -> list[str]:
        return [self._text(number) for number in part]

    def metadatas(self, part: Sequence[int]) -> list[dict[str, Any]]:
        return [{key: value for key, value in each.items() if key != "language"} for each in super().metadatas(part)]

    def _text(self, number: int) -> str:
        generator = random.Random(SEED + number)
        little = sorted(STOP_WORDS[LANGUAGES[number % len(LANGUAGES)]])
        words: list[str] = []
        while sum(map(len, words)) + len(words) < CHARACTERS:
            words.append(generator.choice(little if generator.random() < STOP_WORD_SHARE else self._vocabulary))
        return " ".join(words)


def run(arguments: argparse.Namespace) -> None:
    programs = [command()[0], *([arguments.than] if arguments.than else [])]
    batches = arguments.documents // (arguments.clients * arguments.batch)
    corpus = Languages(arguments.rounds * batches * arguments.clients * arguments.batch, 384, 1)
    samples = [(Samples(), Samples()) for _ in programs]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.directory)))
        sides = [
            _sides(scratch / str(place), program, place, arguments, stack) for place, program in enumerate(programs)
        ]
        for number in range(arguments.rounds):
            for place in in_turn(number)[: len(programs)] if len(programs) > 1 else (0,):
                _measure(sides[place], corpus, number, batches, arguments, samples[place])
            print(_told(samples), flush=True)


def _sides(scratch: Path, program: str, place: int, arguments: argparse.Namespace, stack: ExitStack) -> list[OurSide]:
    settings = {"engine_records": arguments.records}
    places = [scratch / "one"]
    if arguments.catalog_url:
        (scratch / "chroma").mkdir(parents=True)
        chroma = stack.enter_context(chroma_run(scratch / "chroma"))
        settings |= {"catalog_url": arguments.catalog_url[place], "chroma_url": chroma}
        places.append(scratch / "two")
    sides = []
    for each in places:
        each.mkdir(parents=True)
        service = stack.enter_context(scratch_service(each, program=program, **settings))
        sides.append(OurSide(service.url, scratch))
    sides[0].create()
    return sides


def _measure(
    sides: list[OurSide],
    corpus: Corpus,
    number: int,
    batches: int,
    arguments: argparse.Namespace,
    samples: tuple[Samples, Samples],
) -> None:
    size, clients = arguments.batch, arguments.clients
    first = number * batches * clients * size
    adds = [
        sides[0].add(corpus, range(start, start + size), wait="commit")
        for start in range(first, first + batches * clients * size, size)
    ]
    pids = processes_in(sides[0].directory)
    before = cpu_seconds(pids)
    urls = [sides[client % len(sides)].url for client in range(clients)]
    together = do_together(urls, [adds[client::clients] for client in range(clients)])
    cpu = cpu_seconds(pids) - before
    samples[0].add_rate(len(adds) * size, together, cpu)
    samples[1].add_p95(together.latencies_seconds, together, cpu)
    while not sides[0].is_settled():
        time.sleep(POLL_SECONDS)


def _told(samples: list[tuple[Samples, Samples]]) -> str:
    rates, latencies = zip(*samples, strict=True)
    told = " : ".join(f"{rate.rounds[-1]:.0f}/s p95 {p95.rounds[-1]:.0f} ms" for rate, p95 in samples)
    if len(samples) == 1:
        return told
    ratios = [
        statistics.median(ours / theirs for ours, theirs in zip(*(each.rounds for each in kind), strict=True))
        for kind in (rates, latencies)
    ]
    return f"{told}; all rounds: {ratios[0]:.2f} x the documents/s, {ratios[1]:.2f} x the p95"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--than", help="the command `rag-wrapper` of another installation")
    parser.add_argument("--catalog-url", nargs="+", help="empty databases, one for each installation")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--documents", type=int, default=1_600, help="those of a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", default="vectors", help="what the engine gets: vectors or full")
    parser.add_argument("--directory", type=Path, help="where the scratch directories are made; default: the system's")
    arguments = parser.parse_args()
    return exit_code(lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
