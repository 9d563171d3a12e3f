"""Nothing acknowledged is lost when processes are killed or frozen one after another at random moments of concurrent
writes, each write has its line in the audit log, and reads are answered throughout.

Five attacks by default, one of each kind, on two workers; `make soak` makes sixty of each, on four workers too, and prints
what it did. RAG_SOAK_SEED repeats a run's choices.
"""

import os
import random
import signal
from collections import Counter

import pytest

from tests.durability.processes import alive, kill, kill_everything, leader, workers
from tests.durability.workload import (
    Reader,
    Writer,
    assert_each_write_has_its_line,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    percentile,
    running,
    written,
)
from tests.support.live import eventually

KINDS = ("engine", "frozen engine", "worker", "draining worker", "service")
ROUNDS = int(os.environ.get("RAG_SOAK_ROUNDS", len(KINDS)))
SEED = int(os.environ.get("RAG_SOAK_SEED", "1"))
WRITERS = 5
FIXED = 300


def _attack(kind, service, number_of_workers, serve):
    """Attack, wait until the victim is replaced, and return the service, which is a new one when all of it was
    killed."""
    if kind == "service":
        kill_everything(service)
        return serve()
    if kind in ("engine", "frozen engine"):
        engine = eventually(lambda: service.engine_pid)
        os.kill(engine, signal.SIGKILL if kind == "engine" else signal.SIGSTOP)
        eventually(lambda: service.engine_pid not in (None, engine), complaint=service.tail)
        return service
    first = eventually(lambda: leader(service))
    doomed = first if kind == "draining worker" else next(pid for pid in workers(service) if pid != first)
    kill(doomed)
    eventually(lambda: not alive(doomed))
    eventually(lambda: len(workers(service)) == number_of_workers, complaint=service.tail)
    assert (eventually(lambda: leader(service)) == first) == (kind == "worker")
    return service


@pytest.mark.timeout(300 + 30 * ROUNDS)
@pytest.mark.parametrize("number_of_workers", [2, 4] if "RAG_SOAK_ROUNDS" in os.environ else [2])
def test_nothing_acknowledged_is_lost_whatever_is_killed_and_whenever(serve, number_of_workers):
    generator = random.Random(SEED)
    service = serve(workers=number_of_workers, memory_vectors_mb=64)
    fixed = documents(FIXED, seed=99)
    create(service, "fixed", fixed)
    create(service, "attacked")
    writers = [Writer(service, "attacked", number) for number in range(WRITERS)]
    reader = Reader(service, "fixed", fixed)
    done = Counter()
    while done.total() < ROUNDS:
        with running([reader.run, *(writer.run for writer in writers)]) as stopping:
            for kind in generator.sample(KINDS, len(KINDS)):
                written(writers, generator.randint(1, 60), stopping, complaint=service.tail)
                service = _attack(
                    kind, service, number_of_workers, lambda: serve(workers=number_of_workers, memory_vectors_mb=64)
                )
                for client in (reader, *writers):
                    client.service = service
                done[kind] += 1
        healed(service)
        assert not [refusal for writer in writers for refusal in writer.refused]
        assert not [violation for writer in writers for violation in writer.violations]
        assert not reader.violations
        assert_nothing_is_lost(service, "attacked", writers)
        assert_each_write_has_its_line(service, writers, killed=number_of_workers * done.total())
        kept, acknowledged = (sum(numbers) for numbers in zip(*((len(w.kept), w.stored) for w in writers), strict=True))
        slow = percentile(reader.latencies, 0.99)
        print(
            f"seed {SEED}, {number_of_workers} workers: {dict(done)}; {acknowledged} writes acknowledged, all {kept} "
            f"documents are there and whole; {len(reader.latencies)} reads answered right, 99 % within {slow:.2f} s, all "
            f"within {max(reader.latencies):.2f} s"
        )
