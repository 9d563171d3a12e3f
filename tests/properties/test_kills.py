"""A process is really killed while it writes to a real Chroma: each answered write is in both stores, once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties import dying_process
from tests.properties.consistency import catalog_state, check_engine, check_tables, model_state
from tests.properties.processes import KILLED, Process
from tests.properties.stories import STORY, Client
from tests.support.live import eventually
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.keeper_process import start_keeper

ROOT = Path(__file__).parents[2]
PROCESS_SECONDS = 60


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory, processes):
    data_dir = tmp_path_factory.mktemp("engine")
    keeper, state = start_keeper(data_dir), EngineStateReader(data_dir)
    eventually(lambda: state.read().ready)
    yield state.url()
    assert keeper.stop() == 0


@pytest.fixture
def engine(engine_url):
    """An engine without collections."""
    client = EngineClient(lambda: engine_url)
    for each in client.list_collections():
        client.delete_collection(each.name)
    yield client
    client.close()


def _states():
    model, states = {}, [model_state({})]
    for operation in STORY:
        operation.apply(model)
        states.append(dict(model_state(model)))
    return states


@pytest.mark.parametrize("crash_at", [3, 27, 41, 68, 95, 113, 124])
def test_the_process_after_a_killed_one_has_everything(tmp_path, engine, engine_url, crash_at):
    died = subprocess.run(
        [sys.executable, dying_process.__file__, tmp_path, engine_url, str(crash_at)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=False,
    )
    assert died.returncode == KILLED, died.stderr
    done = sum(line.isdigit() for line in died.stdout.splitlines())
    states, path = _states(), tmp_path / "catalog.sqlite"
    assert catalog_state(path) in states[done : done + 2]

    process = Process(tmp_path, engine)
    process.lead()
    process.drain()
    check_engine(path, engine)
    Client(done).work(process, STORY, drains="always")
    process.drain()
    process.close()
    assert catalog_state(path) == states[-1]
    check_tables(path)
    check_engine(path, engine)
