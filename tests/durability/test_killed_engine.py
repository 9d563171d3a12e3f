"""`kill -9` of the engine during writes: the service heals by itself and loses nothing it acknowledged."""

import os
import signal

from tests.durability.workload import (
    GATHERED_FROM_THE_CATALOGUE,
    BruteForce,
    Writer,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    running,
)
from tests.support.live import eventually

ROUNDS = 3


def test_killed_during_writes_it_heals_and_nothing_acknowledged_is_lost(serve):
    service = serve()
    create(service, "killed")
    fixed = documents(300, seed=1)
    create(service, "fixed", fixed)
    writers = [Writer(service, "killed", number) for number in range(4)]
    truth, plans, wrong = BruteForce(fixed), [], []

    def query(stopping):
        with service.session() as session:
            while not stopping.is_set():
                before = service.engine_pid
                vector = fixed[len(plans) % len(fixed)]["embedding"]
                answer = session.post(
                    f"{service.url}/collections/fixed/query", json={"query_embedding": vector, "top_k": 5}, timeout=15
                )
                found = answer.json()
                plans.append((before, found["plan"]))
                if [each["id"] for each in found["results"]] != truth.nearest(vector, 5):
                    wrong.append(found)

    with running([*(writer.run for writer in writers), query]) as stopping:
        for _ in range(ROUNDS):
            stored = sum(writer.stored for writer in writers)
            eventually(
                lambda stored=stored: stopping.is_set() or sum(each.stored for each in writers) > stored + 40,
                seconds=60,
            )
            engine = eventually(lambda: service.engine_pid, seconds=30)
            os.kill(engine, signal.SIGKILL)
            eventually(
                lambda engine=engine: service.engine_pid not in (None, engine), seconds=30, complaint=service.tail
            )
    healed(service)
    assert not wrong
    assert {plan for _, plan in plans} & GATHERED_FROM_THE_CATALOGUE
    assert all(plan in GATHERED_FROM_THE_CATALOGUE for engine, plan in plans if engine is None)
    assert not [refusal for writer in writers for refusal in writer.refused]
    assert_nothing_is_lost(service, "killed", writers)


def test_after_its_death_writes_are_indexed_within_half_a_minute(serve):
    service = serve()
    create(service, "healing", documents(50, seed=2))
    os.kill(service.engine_pid, signal.SIGKILL)
    healed(service)
    with service.session() as session:
        found = session.post(
            f"{service.url}/collections/healing/query",
            json={"query_embedding": documents(50, seed=2)[7]["embedding"], "top_k": 1},
            timeout=15,
        ).json()
    assert found["plan"] == "index"
    assert found["results"][0]["metadata"]["number"] == 7
