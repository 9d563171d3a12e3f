"""The last measurements of a run: a rebuild of the index, and a restart."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks.clients import Connection, RefusedError, Together, Work
from benchmarks.data import SECTION, TOP_K, Corpus
from benchmarks.measuring import BY_KEY, Samples
from benchmarks.peer import OurSide, Side

POLL_SECONDS = 0.01
GIVE_UP_SECONDS = 120.0


def measure_rebuild(ours: OurSide, documents: int, added_again: Samples, samples: tuple[Samples, Samples]) -> None:
    """Measure a rebuild of our index beside adding all documents again.

    The other side has no rebuild: its clients add again what it has lost, one batch of 100 after the other.
    """
    samples[0].rounds.append(documents / ours.rebuild())
    samples[1].rounds.append(added_again.value)


def measure_restart(
    corpus: Corpus, side: Side, start: Callable[[], AbstractContextManager[str]], samples: Samples
) -> None:
    """Measure the time from the start of the process to the first whole section and the first whole query answer."""
    for _ in range(BY_KEY["restart"].rounds):
        began = time.perf_counter()
        with start() as url:
            side.url = url
            _first_answer(side, side.section(7), SECTION)
            _first_answer(side, side.query(corpus.queries[0], None), TOP_K)
            seconds = time.perf_counter() - began
        samples.add_latencies(Together([[seconds]], seconds, Counter()), 0.0)


def _first_answer(side: Side, work: Work, documents: int) -> None:
    deadline = time.perf_counter() + GIVE_UP_SECONDS
    while time.perf_counter() < deadline:
        try:
            connection = Connection(side.url)
        except OSError:
            time.sleep(POLL_SECONDS)
            continue
        try:
            found, _ = side.ids(connection.do(work)[0])
        except (OSError, ValueError, RefusedError):
            time.sleep(POLL_SECONDS)
            continue
        finally:
            connection.close()
        if len(found) != documents:
            raise RefusedError(f"{side.name} answers {len(found)} of {documents} documents after a restart")
        return
    raise RefusedError(f"{side.name} does not answer after a restart")
