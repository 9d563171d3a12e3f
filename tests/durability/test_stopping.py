"""The service ends when it is told to, together with everything it started."""

import json
import os
import signal
import subprocess

import pytest

from interfaces.commands.scratch_service import command, processes_in
from tests.durability.processes import children, keeper
from tests.durability.workload import Writer, assert_nothing_is_lost, create, documents, running
from tests.support.live import eventually


def test_sigterm_during_writes_ends_every_process_and_loses_nothing(serve):
    service = serve(workers=2)
    create(service, "kept")
    writers = [Writer(service, "kept", number) for number in range(4)]
    with running(writer.run for writer in writers) as stopping:
        eventually(lambda: stopping.is_set() or sum(each.stored for each in writers) > 40)
        assert len(processes_in(service.data_dir)) == 5
        assert service.stop() == 0
    assert not [refusal for writer in writers for refusal in writer.refused]
    again = serve()
    for writer in writers:
        writer.service = again
    assert_nothing_is_lost(again, "kept", writers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_the_service_ends_while_the_engine_is_frozen_and_writers_wait(serve, number):
    service = serve(write_wait_seconds=3)
    create(service, "kept")
    engine = service.engine_pid
    os.kill(engine, signal.SIGSTOP)
    answers = []

    def write(_):
        with service.session() as session:
            body = {"documents": documents(1, seed=1)}
            answers.append(session.post(f"{service.url}/collections/kept/documents", json=body, timeout=60))

    def stored():
        with service.session() as session:
            return session.get(f"{service.url}/collections/kept", timeout=5).json()["count"] == 1

    with running([write]):
        eventually(stored)
        if number == signal.SIGINT:
            # A terminal sends the signal to the whole process group.
            os.killpg(service.process.pid, number)
        assert service.stop(number) == 0
    assert [answer.status_code in (201, 202) for answer in answers] == [True]


def test_a_second_service_names_the_owner_of_the_directory_and_disturbs_nothing(serve, tmp_path):
    service = serve()
    create(service, "kept", documents(20, seed=1))
    before = sorted([service.process.pid, *children(service.process.pid)]), keeper(service), service.engine_pid
    environ = {**os.environ, "RAG_DATA_DIR": str(service.data_dir), "RAG_PORT": str(service.port)}
    second = subprocess.run(command("serve"), env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    (sentence,) = {json.loads(line)["event"] for line in second.stderr.splitlines() if "data directory" in line}
    assert sentence.startswith(
        f"The data directory {service.data_dir} is in use by process {service.process.pid} since "
    )
    assert sentence.endswith(f", serving {service.url}")
    assert "Traceback" not in second.stderr
    after = sorted([service.process.pid, *children(service.process.pid)]), keeper(service), service.engine_pid
    assert after == before
    with service.session() as session:
        query = {"query_embedding": documents(20, seed=1)[4]["embedding"], "top_k": 1}
        found = session.post(f"{service.url}/collections/kept/query", json=query, timeout=15).json()
    assert (found["results"][0]["metadata"]["number"], found["plan"]) == (4, "index")


def test_who_waits_for_changes_is_answered_when_the_service_ends(serve):
    service = serve(workers=2)
    create(service, "followed", documents(3, seed=1))
    answers = []

    def follow(_):
        with service.session() as session:
            path = f"{service.url}/collections/followed/changes"
            place = json.loads(session.get(path, timeout=60).content.splitlines()[-1])
            asked = {"since": place["next"], "history": place["history"], "wait": 60}
            answers.append((place, session.get(path, params=asked, timeout=60)))

    def waits():
        with service.session() as session:
            told = session.get(f"{service.url}/metrics", timeout=10).text
        lanes = [line for line in told.splitlines() if line.startswith("rag_lane_running") and '"following"' in line]
        return any(float(line.rpartition(" ")[2]) == 1 for line in lanes)

    with running([follow]):
        eventually(waits)
        assert not answers
        assert service.stop() == 0
    [(place, answer)] = answers
    assert answer.status_code == 200
    assert json.loads(answer.content) == place
