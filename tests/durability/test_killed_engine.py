"""After `kill -9` of the engine during writes, the service recovers by itself and loses nothing it acknowledged."""

import os
import random
import signal

import pytest

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
from tests.support.live import eventually, live_service

ROUNDS = 3
SMALL = 120


def test_an_engine_killed_during_writes_recovers_and_no_acknowledged_write_is_lost(serve):
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
            )
            engine = eventually(lambda: service.engine_pid)
            os.kill(engine, signal.SIGKILL)
            eventually(lambda engine=engine: service.engine_pid not in (None, engine), complaint=service.tail)
    healed(service)
    assert not wrong
    assert {plan for _, plan in plans} & GATHERED_FROM_THE_CATALOGUE
    assert all(plan in GATHERED_FROM_THE_CATALOGUE for engine, plan in plans if engine is None)
    assert not [refusal for writer in writers for refusal in writer.refused]
    assert_nothing_is_lost(service, "killed", writers)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("killed"), memory_vectors_mb=0, exact_ms=0, recall=0) as service:
        yield service


def test_writes_are_indexed_within_half_a_minute_of_the_engines_death(service):
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


def test_after_the_engines_death_every_index_is_checked_least_recently_checked_first(service):
    names = [f"small-{number:03}" for number in range(SMALL)]
    random.Random(3).shuffle(names)
    for name in names:
        create(service, name, documents(1, seed=1))
    with service.session() as session:

        def index(name):
            return session.get(f"{service.url}/collections/{name}/index", timeout=15).json()

        for name in ("small-007", "small-001", "small-050"):
            before = index(name)["checked_at"]
            session.post(f"{service.url}/collections/{name}/index/check", timeout=15)
            eventually(lambda name=name, before=before: index(name)["checked_at"] != before)
        seen = {name: index(name)["checked_at"] for name in names}
        os.kill(service.engine_pid, signal.SIGKILL)

        def looked_at():
            found = {name: index(name) for name in names}
            again = all(found[name]["checked_at"] != seen[name] for name in names)
            return again and all(each["state"] == "ready" for each in found.values()) and found

        looks = eventually(looked_at, complaint=service.tail)
    oldest_first = sorted(names, key=lambda name: (seen[name] or "", name))
    assert sorted(names, key=lambda name: looks[name]["checked_at"]) == oldest_first
