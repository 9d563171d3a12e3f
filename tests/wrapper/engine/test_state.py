import itertools
import os
import subprocess
import sys
from dataclasses import replace

from wrapper.engine.keeper.state import (
    EngineState,
    EngineStateReader,
    read_state,
    start_time,
    write_state,
)

READY = EngineState(
    state="ready",
    url="http://127.0.0.1:4711",
    pid=os.getpid(),
    pid_started=start_time(os.getpid()),
    keeper_pid=11,
    restarts=2,
)


def test_what_is_written_is_read(tmp_path):
    write_state(tmp_path, READY)
    assert read_state(tmp_path) == READY
    assert READY.ready


def test_without_a_file_the_engine_is_stopped(tmp_path):
    assert read_state(tmp_path) == EngineState(state="stopped", url="", pid=None)
    assert EngineStateReader(tmp_path).url() == ""


def test_a_reader_sees_each_change(tmp_path):
    reader = EngineStateReader(tmp_path)
    write_state(tmp_path, READY)
    assert reader.read() == READY
    assert reader.read() is reader.read()
    write_state(tmp_path, replace(READY, state="unresponsive"))
    assert reader.read().state == "unresponsive"


def test_a_file_of_another_version_counts_as_stopped(tmp_path):
    (tmp_path / "engine.json").write_text('{"state": "ready", "flavour": "new"}')
    assert read_state(tmp_path) == EngineState()


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
