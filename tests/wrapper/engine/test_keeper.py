"""The engine's process survives what happens to it and around it, or ends with it; its state is in a file."""

import fcntl
import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.durability.processes import alive
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineUnavailableError
from wrapper.engine.keeper.chroma_child import ChromaChild, end_orphan, free_port
from wrapper.engine.keeper.state import (
    EngineState,
    EngineStateReader,
    read_state,
    request_restart,
    start_time,
    write_state,
)
from wrapper.engine.keeper_process import start_keeper


class Kept:
    """A keeper over a directory, and its engine's state."""

    def __init__(self, data_dir):
        self.data_dir = data_dir
        self.keeper = start_keeper(data_dir)
        self.reader = EngineStateReader(data_dir)
        self.client = EngineClient(self.reader.url)

    @property
    def state(self):
        return self.reader.read()

    def stop(self):
        self.client.close()
        return self.keeper.stop()

    def ready(self, *, other_than=None):
        return eventually(lambda: self.state.ready and self.state.pid != other_than and self.state)


@pytest.fixture(scope="module")
def keeper(tmp_path_factory):
    kept = Kept(tmp_path_factory.mktemp("kept"))
    yield kept
    kept.stop()
    assert not alive(kept.keeper.pid)


@pytest.fixture
def kept(keeper):
    """One keeper for all tests after which there is an engine again."""
    keeper.ready()
    return keeper


def test_it_starts_and_stops_the_engine_and_bounds_its_log(tmp_path):
    (tmp_path / "engine.log").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    assert not request_restart(tmp_path), "there is nobody to be asked"
    kept = Kept(tmp_path)
    state = kept.ready()
    kept.client.heartbeat()
    assert state.restarts == 0
    assert state.keeper_pid == kept.keeper.pid
    assert kept.keeper.is_alive
    assert kept.stop() == 0
    assert kept.state.state == "stopped"
    assert not alive(state.pid)
    assert not kept.keeper.is_alive
    with pytest.raises(EngineUnavailableError):
        kept.client.heartbeat()
    assert not request_restart(tmp_path)
    assert (tmp_path / "engine.log").stat().st_size < 100_000
    assert (tmp_path / "engine.log.1").exists()


def test_a_killed_engine_is_back_and_the_same_client_finds_it(kept):
    engine_id = kept.client.create_collection("kept", metric="cosine")
    first = kept.state
    os.kill(first.pid, signal.SIGKILL)
    second = kept.ready(other_than=first.pid)
    assert second.restarts == first.restarts + 1
    assert second.url != first.url
    assert kept.client.get_collection("kept").id == engine_id


@pytest.mark.slow
def test_a_hung_engine_is_reported_killed_and_replaced(kept):
    hung = kept.state.pid
    os.kill(hung, signal.SIGSTOP)
    eventually(lambda: kept.state.state == "unresponsive")
    assert kept.state.pid == hung
    kept.ready(other_than=hung)
    assert not alive(hung)


@pytest.mark.slow
def test_an_engine_that_was_only_slow_is_ready_again(kept):
    state = kept.state
    os.kill(state.pid, signal.SIGSTOP)
    eventually(lambda: kept.state.state == "unresponsive")
    os.kill(state.pid, signal.SIGCONT)
    kept.ready()
    assert kept.state.pid == state.pid


@pytest.mark.slow
def test_a_restart_can_be_asked_for(kept):
    first = kept.state.pid
    assert request_restart(kept.data_dir)
    kept.ready(other_than=first)
    assert not alive(first)


def test_the_engine_ends_with_a_killed_keeper(tmp_path):
    kept = Kept(tmp_path)
    engine = kept.ready().pid
    os.kill(kept.keeper.pid, signal.SIGKILL)
    eventually(lambda: not alive(engine))
    kept.stop()


def test_the_keeper_ends_when_its_lifeline_does(tmp_path):
    kept = Kept(tmp_path)
    engine = kept.ready().pid
    os.close(kept.keeper.lifeline)
    kept.keeper.lifeline = None
    assert kept.keeper.process.wait(PATIENCE_SECONDS) == 0
    assert not alive(engine)
    assert kept.state.state == "stopped"


SERVICE = """
import os, signal, sys
from pathlib import Path
from wrapper.engine.keeper_process import start_keeper
keeper = start_keeper(Path(sys.argv[1]))
if os.fork() == 0:
    print(keeper.pid, os.getpid(), flush=True)
    signal.pause()
signal.pause()
"""


def test_the_keeper_outlives_the_service_as_long_as_a_worker_lives(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as service:
        told = (line.split() for line in service.stdout)
        keeper, worker = next((int(words[0]), int(words[1])) for words in told if words and words[0].isdigit())
        eventually(lambda: read_state(tmp_path).ready)
        service.kill()
        service.wait()
        assert alive(keeper)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: not alive(keeper))
    assert read_state(tmp_path).state == "stopped"


def test_an_engine_left_by_an_earlier_keeper_is_ended_first(tmp_path):
    orphan = ChromaChild(tmp_path, python=sys.executable)
    eventually(lambda: (tmp_path / "engine.lock").exists() and (tmp_path / "engine.lock").read_text())
    kept = Kept(tmp_path)
    state = kept.ready()
    assert orphan.exit_code() is not None
    assert state.pid != orphan.pid
    assert f"ended engine {orphan.pid}" in (tmp_path / "engine.log").read_text()
    kept.stop()


def test_the_engine_leaves_the_port_of_the_service_alone(monkeypatch):
    ports = iter((41_001, 41_002, 41_003, 41_004))

    @contextmanager
    def bound():
        port = next(ports)
        yield SimpleNamespace(bind=lambda _address: None, getsockname=lambda: ("127.0.0.1", port))

    monkeypatch.setattr("wrapper.engine.keeper.chroma_child.socket.socket", bound)
    assert free_port(41_001) == 41_002
    assert free_port(41_001) == 41_003


def test_two_engines_on_one_directory_are_impossible(kept):
    second = ChromaChild(kept.data_dir, python=sys.executable)
    assert eventually(second.exit_code) == 71


def test_a_directory_in_use_by_a_process_that_is_not_an_engine_is_left_alone(tmp_path):
    with (tmp_path / "engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        with pytest.raises(TimeoutError, match="another engine is using"):
            end_orphan(tmp_path, grace_seconds=0.0, clock=time.monotonic)


@pytest.mark.slow
def test_a_second_keeper_waits_for_the_first_to_go(tmp_path):
    first = Kept(tmp_path)
    engine = first.ready().pid
    second = Kept(tmp_path)
    first.stop()
    state = second.ready(other_than=engine)
    assert state.keeper_pid == second.keeper.pid
    second.stop()


def test_an_engine_that_cannot_start_does_not_stop_the_keeper_which_may_be_asked_twice(tmp_path):
    (tmp_path / "chroma").write_text("a file where the directory should be")
    kept = Kept(tmp_path)
    eventually(lambda: kept.state.restarts >= 1)
    while kept.keeper.is_alive:
        os.kill(kept.keeper.pid, signal.SIGTERM)
        os.kill(kept.keeper.pid, signal.SIGUSR1)
    assert kept.stop() == 0
    assert kept.state.state == "stopped"


def test_the_keeper_is_small(kept):
    status = Path(f"/proc/{kept.keeper.pid}/status").read_text()
    resident_kb = int(status.split("VmRSS:")[1].split()[0])
    assert resident_kb < 25_000


READY = EngineState(
    state="ready",
    url="http://127.0.0.1:4711",
    pid=os.getpid(),
    pid_started=start_time(os.getpid()),
    keeper_pid=11,
    restarts=2,
)


def test_without_a_file_or_with_one_of_another_version_the_engine_is_stopped(tmp_path):
    assert read_state(tmp_path) == EngineState(state="stopped", url="", pid=None)
    assert EngineStateReader(tmp_path).url() == ""
    (tmp_path / "engine.json").write_text('{"state": "ready", "flavour": "new"}')
    assert read_state(tmp_path) == EngineState()


def test_a_reader_sees_each_change(tmp_path):
    reader = EngineStateReader(tmp_path)
    write_state(tmp_path, READY)
    assert reader.read() == READY
    assert reader.read() is reader.read()
    write_state(tmp_path, replace(READY, state="unresponsive"))
    assert reader.read().state == "unresponsive"


def test_an_engine_that_is_gone_with_its_keeper_is_not_ready(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as engine:
        gone = replace(READY, pid=engine.pid, pid_started=start_time(engine.pid))
        write_state(tmp_path, gone)
        reader = EngineStateReader(tmp_path, clock=itertools.count().__next__)
        assert reader.read().ready
        engine.communicate(b"\n")
    assert (reader.read().state, reader.url(), reader.read().pid) == ("unresponsive", "", None)


def test_a_later_process_of_the_same_number_is_not_the_engine(tmp_path):
    write_state(tmp_path, replace(READY, pid_started=READY.pid_started - 1))
    assert not read_state(tmp_path).ready
