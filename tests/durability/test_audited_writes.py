"""No write is acknowledged without its line in the audit log, whatever is killed and however full the disk is."""

from __future__ import annotations

import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

import requests

from tests.durability.processes import alive, keeper, kill, workers
from tests.durability.test_full_disk import fill, small_disk
from tests.durability.workload import create, documents, running
from tests.support.live import eventually, start_service
from tests.wrapper.audit.conftest import lines_of

ANSWER_SECONDS = 30
ENOUGH = 60
KILLED = 3 + 2
"""The workers that are killed one after the other, and those of the end."""
FEW = 4
"""On a disk that is nearly full both databases give back room now and then, so refusals come slowly."""


@dataclass
class Audited:
    """A client that remembers the ids of the requests whose writes were acknowledged, and how others were refused."""

    service: object
    number: int
    acknowledged: set[str] = field(default_factory=set)
    refused: list[int] = field(default_factory=list)

    def run(self, stopping: threading.Event) -> None:
        step = 0
        while not stopping.is_set():
            step += 1
            request_id = uuid.uuid4().hex
            with suppress(requests.RequestException), requests.Session() as session:
                answer = session.post(
                    f"{self.service.url}/collections/kept/documents",
                    json={"documents": documents(2, seed=(self.number, step))},
                    headers={"X-Request-ID": request_id},
                    timeout=ANSWER_SECONDS,
                )
                if answer.ok:
                    self.acknowledged.add(request_id)
                else:
                    self.refused.append(answer.status_code)


def total(clients):
    return sum(len(each.acknowledged) for each in clients)


def assert_all_have_lines(data_dir, clients, *, killed=0):
    recorded = {line["request_id"]: line for line in lines_of(data_dir / "audit", killed=killed)}
    acknowledged = set().union(*(each.acknowledged for each in clients))
    assert acknowledged
    assert acknowledged <= recorded.keys()
    assert {recorded[each]["count"] for each in acknowledged} == {2}


def test_killed_workers_and_services_have_recorded_all_that_was_acknowledged(serve):
    service = serve(workers=2)
    create(service, "kept")
    clients = [Audited(service, number) for number in range(4)]
    with running(each.run for each in clients) as stopping:
        for _ in range(3):
            before = total(clients)
            eventually(lambda before=before: stopping.is_set() or total(clients) > before + ENOUGH)
            doomed = eventually(lambda: workers(service))[0]
            kill(doomed)
            eventually(lambda doomed=doomed: not alive(doomed))
        all_processes = (service.process.pid, *workers(service), keeper(service), service.engine_pid)
        kill(*all_processes)
        eventually(lambda: not any(map(alive, all_processes)))
        stopping.set()
    assert_all_have_lines(service.data_dir, clients, killed=KILLED)


def test_a_disk_that_fills_up_under_load_keeps_the_line_of_each_acknowledged_write(tmp_path, processes):
    with small_disk(tmp_path / "disk") as disk:
        # What the catalogue's log still has room for is acknowledged without waiting long for the engine, which has none.
        service = start_service(disk, disk_floor_mb=0, write_wait_seconds=0.1)
        try:
            create(service, "kept")
            clients = [Audited(service, number) for number in range(4)]
            with running(each.run for each in clients) as stopping:
                eventually(lambda: stopping.is_set() or total(clients) > ENOUGH)
                for _ in range(4):
                    filler = fill(disk)
                    refused = sum(len(each.refused) for each in clients)
                    eventually(
                        lambda refused=refused: (
                            stopping.is_set() or sum(len(each.refused) for each in clients) > refused + FEW
                        ),
                    )
                    filler.unlink()
                    before = total(clients)
                    eventually(lambda before=before: stopping.is_set() or total(clients) > before + FEW)
            assert {status for each in clients for status in each.refused} <= {503, 507}
            assert_all_have_lines(service.data_dir, clients)
        finally:
            service.stop()
