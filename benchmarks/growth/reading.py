"""The requests that are measured at each size, and how they are measured: both sides in turns, medians of rounds."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.clients import Connection, Work, request
from benchmarks.data import SECTION, SEED, Query, section_id
from benchmarks.growth.documents import COMMON, FACETS, GrowingCorpus, rare_word
from benchmarks.measuring import in_turn, work_for
from benchmarks.peer import COLLECTION, OurSide, Side
from benchmarks.processes import cpu_seconds
from interfaces.commands.scratch_service import processes_in

ROUNDS, SECONDS, FEWEST = 5, 0.6, 3
WORKS, QUERIES, RECALL_QUERIES = 200, 200, 50
ADDED = 100
EXTRA = 2 * (ROUNDS + 1) * ADDED
"""How many documents `measure_adds` adds and deletes again."""


@dataclass(frozen=True, slots=True)
class Read:
    """A kind of request; `peer` says whether Chroma has one for the same work."""

    key: str
    title: str
    peer: bool = True


READS = (
    Read("section", "a section of 10"),
    Read("half-page", "first 50 of 50 %, with total"),
    Read("few", "query, 10 match"),
    Read("thousand", "query, 1,000 match"),
    Read("half", "query, 50 % match"),
    Read("unfiltered", "query, no filter"),
    Read("gather", "query with whole sections"),
    Read("rare-word", "words, 10 match", peer=False),
    Read("usual-words", "words, 1 % match", peer=False),
    Read("common-word", "words, 50 % match", peer=False),
    Read("facets", "facets of four fields", peer=False),
)
ADDS = {"add-commit": "add of 100, stored", "add-index": "add of 100, indexed"}


def _work(side: Side, row: str, size: int, corpus: GrowingCorpus, generator: random.Random) -> Work:
    section = generator.randrange(size // SECTION)
    query = generator.choice(corpus.queries)
    match row:
        case "section":
            return side.section(section)
        case "half-page":
            return side.half_page(generator.randrange(2))
        case "few":
            return side.query(Query(query.embedding, {"section_id": section_id(section)}), "section_id")
        case "thousand":
            return side.query(Query(query.embedding, {"$and": corpus.matching(1_000, size, generator)}), "$and")
        case "half":
            return side.query(query, "half")
        case "unfiltered":
            return side.query(query, None)
        case "gather":
            sections = [] if isinstance(side, OurSide) else corpus.sections_near(query, size)
            return side.gather(query, sections)
        case "facets":
            return [request("GET", f"/collections/{COLLECTION}/facets?fields={','.join(FACETS)}")]
    words = {"rare-word": rare_word(section), "common-word": COMMON}.get(row) or corpus.some_words(generator, 3)
    return [request("POST", f"/collections/{COLLECTION}/text-search", {"query": words, "top_k": 10})]


def measure(sides: Sequence[Side], row: str, size: int, corpus: GrowingCorpus) -> dict[str, Any]:
    """Return each side's median milliseconds, and of ours the processor milliseconds of a request and the plans."""
    connections = [Connection(side.url) for side in sides]
    works = []
    for side in sides:
        generator = random.Random(SEED)
        works.append([_work(side, row, size, corpus, generator) for _ in range(WORKS)])
    latencies: list[list[float]] = [[] for _ in sides]
    pids, cpu, done = processes_in(sides[0].directory), 0.0, 0
    plans: Counter[str] = Counter()
    for number in range(ROUNDS + 1):
        for place in in_turn(number):
            if place >= len(sides):
                continue
            before = cpu_seconds(pids)
            turned = works[place][number * FEWEST :] + works[place][: number * FEWEST]
            together = work_for(connections[place], turned, SECONDS, FEWEST)
            if number == 0:
                continue
            latencies[place].append(statistics.median(together.latencies_seconds) * 1e3)
            if place == 0:
                cpu += cpu_seconds(pids) - before
                done += len(together.latencies_seconds)
                plans += together.plans
    for connection in connections:
        connection.close()
    return {
        "ms": [statistics.median(each) for each in latencies],
        "cpu_ms": 1e3 * cpu / done,
        "plans": dict(plans),
    }


def recall(ours: OurSide, row: str, size: int, corpus: GrowingCorpus) -> float:
    """Return the recall@10 of our answers to `unfiltered` or `half`, compared with the exact answer."""
    connection = Connection(ours.url)
    queries = corpus.queries[:RECALL_QUERIES]
    field = "half" if row == "half" else None
    found = [ours.ids(connection.do(ours.query(query, field))[0])[0] for query in queries]
    connection.close()
    return corpus.recall(queries, found, size, row == "half")


def measure_adds(sides: Sequence[Side], corpus: GrowingCorpus) -> dict[str, dict[str, Any]]:
    """Add 100 documents a few times, which are deleted at the end, and return the median milliseconds of each row.

    Ours is asked for two answers, once it is stored and once it is indexed. Chroma has one, which stands in both rows.
    """
    latencies: dict[str, list[list[float]]] = {row: [[] for _ in sides] for row in ADDS}
    first = corpus.count - EXTRA
    for number in range(ROUNDS + 1):
        for row in ADDS:
            part = range(first, first + ADDED)
            first += ADDED
            for place in in_turn(number):
                if place < len(sides):
                    seconds = _add(sides[place], corpus, part, row)
                    if number > 0:
                        latencies[row][place].append(seconds * 1e3)
    for side in sides:
        connection = Connection(side.url)
        connection.do(side.delete_ids(corpus.ids(range(corpus.count - EXTRA, corpus.count))))
        connection.close()
    return {row: {"ms": [statistics.median(each) for each in by_side]} for row, by_side in latencies.items()}


def _add(side: Side, corpus: GrowingCorpus, part: range, row: str) -> float:
    work = side.add(corpus, part, wait="commit" if row == "add-commit" else "index")
    connection = Connection(side.url)
    _, seconds = connection.do(work)
    connection.close()
    return seconds
