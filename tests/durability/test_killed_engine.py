"""After `kill -9` of the engine during writes, the service recovers by itself and loses nothing it acknowledged."""

import os
import signal

import pytest

from tests.durability.workload import (
    GATHERED_FROM_THE_CATALOGUE,
    Reader,
    Writer,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    nearest,
    running,
    written,
)
from tests.support.live import eventually

pytestmark = pytest.mark.slow

ROUNDS = 3


def test_an_engine_killed_during_writes_recovers_and_no_acknowledged_write_is_lost(serve):
    service = serve()
    create(service, "killed")
    fixed = documents(300, seed=1)
    create(service, "fixed", fixed)
    writers = [Writer(service, "killed", number) for number in range(4)]
    reader = Reader(service, "fixed", fixed)
    with running([*(writer.run for writer in writers), reader.run]) as stopping:
        for _ in range(ROUNDS):
            written(writers, 40, stopping)
            engine = eventually(lambda: service.engine_pid)
            os.kill(engine, signal.SIGKILL)
            eventually(lambda engine=engine: service.engine_pid not in (None, engine), complaint=service.tail)
    healed(service)
    assert not reader.violations
    assert {plan for *_, plan in reader.plans} & GATHERED_FROM_THE_CATALOGUE
    assert all(plan in GATHERED_FROM_THE_CATALOGUE for before, _, plan in reader.plans if before is None)
    eventually(lambda: nearest(service, "fixed", fixed[7]["embedding"]) == ([fixed[7]["id"]], "index"))
    assert not [refusal for writer in writers for refusal in writer.refused]
    assert_nothing_is_lost(service, "killed", writers)
