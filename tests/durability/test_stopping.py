"""The service ends when it is told to, together with everything it started."""

import json
import os
import signal
import subprocess

from interfaces.commands.scratch_service import command, processes_in
from tests.durability.processes import children, keeper
from tests.durability.workload import (
    Writer,
    add,
    ask,
    assert_nothing_is_lost,
    create,
    documents,
    nearest,
    running,
    written,
)
from tests.support.live import PATIENCE_SECONDS, eventually


def test_sigterm_during_writes_ends_every_process_and_loses_nothing(serve):
    service = serve(workers=2)
    create(service, "kept")
    writers = [Writer(service, "kept", number) for number in range(4)]
    with running(writer.run for writer in writers) as stopping:
        written(writers, 40, stopping)
        assert len(processes_in(service.data_dir)) == 5
        assert service.stop() == 0
    assert not [refusal for writer in writers for refusal in writer.refused]
    again = serve()
    for writer in writers:
        writer.service = again
    assert_nothing_is_lost(again, "kept", writers)


def test_ctrl_c_ends_the_service_while_the_engine_is_frozen_and_writers_wait(serve):
    service = serve(write_wait_seconds=3)
    create(service, "kept")
    os.kill(service.engine_pid, signal.SIGSTOP)
    answers = []

    def write(_):
        answers.append(add(service, "kept", documents(1, seed=1), status=None))

    with running([write]):
        eventually(lambda: ask(service, "GET", "/collections/kept")["count"] == 1)
        # A terminal sends the signal to the whole process group.
        os.killpg(service.process.pid, signal.SIGINT)
        assert service.stop(signal.SIGINT) == 0
    assert len(answers) == 1


def test_a_second_service_names_the_owner_of_the_directory_and_disturbs_nothing(serve, tmp_path):
    service = serve()
    given = documents(20, seed=1)
    create(service, "kept", given)
    before = sorted([service.process.pid, *children(service.process.pid)]), keeper(service), service.engine_pid
    environ = {**os.environ, "RAG_DATA_DIR": str(service.data_dir), "RAG_PORT": str(service.port)}
    second = subprocess.run(
        command("serve"), env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert second.returncode != 0
    (sentence,) = {json.loads(line)["event"] for line in second.stderr.splitlines() if "data directory" in line}
    assert sentence.startswith(
        f"The data directory {service.data_dir} is in use by process {service.process.pid} since "
    )
    assert sentence.endswith(f", serving {service.url}")
    assert "Traceback" not in second.stderr
    after = sorted([service.process.pid, *children(service.process.pid)]), keeper(service), service.engine_pid
    assert after == before
    assert nearest(service, "kept", given[4]["embedding"]) == ([given[4]["id"]], "index")


def test_who_waits_for_changes_is_answered_when_the_service_ends(serve):
    service = serve(workers=2)
    create(service, "followed", documents(3, seed=1))
    answers = []

    def follow(_):
        with service.session() as session:
            path = f"{service.url}/collections/followed/changes"
            place = json.loads(session.get(path, timeout=PATIENCE_SECONDS).content.splitlines()[-1])
            asked = {"since": place["next"], "history": place["history"], "wait": 60}
            answers.append((place, session.get(path, params=asked, timeout=PATIENCE_SECONDS)))

    with running([follow]):
        eventually(lambda: service.running_in("following") == 1)
        assert not answers
        assert service.stop() == 0
    [(place, answer)] = answers
    assert answer.status_code == 200
    assert json.loads(answer.content) == place
