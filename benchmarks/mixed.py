"""Readers beside writers: the latencies and rates of an application while documents are added."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from benchmarks.clients import Work, do_together
from benchmarks.data import SEED, Corpus
from benchmarks.measuring import BY_KEY, Samples, in_turn
from benchmarks.peer import Side

SECONDS = 4.0
WRITERS, BATCH, BATCHES = 2, 100, 20
SECTION_READERS, QUERIERS = 2, 4
QUERIERS_WHILE_WRITTEN, WRITTEN_A_SECOND = 8, 20
PREPARED = 200


def late_documents(rounds: int) -> int:
    """Return the most documents that the writers add in this number of rounds."""
    return rounds * WRITERS * BATCH * BATCHES


def measure_mixed(
    corpus: Corpus,
    late: Corpus,
    sides: Sequence[Side],
    cpu: Callable[[int], float],
    samples: tuple[Samples, Samples],
) -> None:
    """Measure reads while documents are added, all as fast as they are answered.

    Two clients add batches of 100, two read sections, four ask queries that 1,000 documents match. The value of a round
    is the 95th percentile of all reads.
    """
    generator = random.Random(SEED)
    sections = [generator.randrange(corpus.sections) for _ in range(PREPARED)]
    queries = generator.choices(corpus.queries, k=PREPARED)
    for number in range(BY_KEY["mixed"].rounds):
        for place in in_turn(number):
            side = sides[place]
            first = number * WRITERS * BATCH * BATCHES
            batches = [range(start, start + BATCH) for start in range(first, first + WRITERS * BATCH * BATCHES, BATCH)]
            adds = [side.add(late, batch) for batch in batches]
            works: list[list[Work]] = [adds[writer::WRITERS] for writer in range(WRITERS)]
            works += [[side.section(each) for each in sections[n::SECTION_READERS]] for n in range(SECTION_READERS)]
            works += [[side.query(each, "thou") for each in queries[n::QUERIERS]] for n in range(QUERIERS)]
            before = cpu(place)
            together = do_together(side.url, works, SECONDS)
            reads = [seconds for client in together.by_client[WRITERS:] for seconds in client]
            samples[place].add_p95(reads, together, cpu(place) - before)


def written_documents(rounds: int) -> int:
    """Return the most documents that the writer of `measure_written` adds in this number of rounds."""
    return rounds * WRITTEN_A_SECOND * int(SECONDS)


def measure_written(
    corpus: Corpus,
    late: Corpus,
    sides: Sequence[Side],
    cpu: Callable[[int], float],
    samples: tuple[Samples, Samples],
) -> None:
    """Measure unfiltered queries of several clients while another one adds documents, one by one, at a steady rate."""
    rounds = BY_KEY["written"].rounds
    for number in range(rounds):
        each_round = written_documents(1)
        documents = range(number * each_round, (number + 1) * each_round)
        for place in in_turn(number):
            side = sides[place]
            queries = [side.query(query, None) for query in corpus.queries]
            works: list[list[Work]] = [[side.add(late, [each]) for each in documents]]
            works += [queries[client::QUERIERS_WHILE_WRITTEN] for client in range(QUERIERS_WHILE_WRITTEN)]
            before = cpu(place)
            together = do_together(side.url, works, SECONDS, pauses=[1 / WRITTEN_A_SECOND])
            done = sum(len(client) for client in together.by_client[1:])
            samples[place].add_rate(done, together, cpu(place) - before)
