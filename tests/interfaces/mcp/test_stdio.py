"""`rag-wrapper mcp` as a process: hostile input, its end, and its standard output."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from interfaces.commands.scratch_service import processes_in
from schemas.access.table import TOOLS
from tests.interfaces.conftest import environ
from tests.support.commands import RUN_MAIN
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.support.mcp_clients import called, over_stdio, text_of, within_bounds
from tests.wrapper.audit.conftest import lines_of as audit_lines_of

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SECONDS = PATIENCE_SECONDS


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def lines_of(*messages):
    """Return messages as lines; bytes stay as they are."""
    return b"".join(each if isinstance(each, bytes) else orjson.dumps(each) + b"\n" for each in messages)


def answered(data_dir, *messages, **settings):
    """Run the process on this input until it ends with 0; return (the answers, the log)."""
    settings = {"data_dir": data_dir, "disk_floor_mb": 1, **settings}
    ended = subprocess.run(
        (*RUN_MAIN, "mcp"),
        input=lines_of(INITIALIZE, INITIALIZED, *messages),
        env=environ(**settings),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return [orjson.loads(line) for line in ended.stdout.splitlines()], ended.stderr.decode()


pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def process(tmp_path):
    """The running command, with its first answer read."""
    with subprocess.Popen(
        (*RUN_MAIN, "mcp"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ(data_dir=tmp_path / "data", log_level="error"),
    ) as running:
        running.stdin.write(lines_of(INITIALIZE))
        running.stdin.flush()
        assert orjson.loads(running.stdout.readline())["id"] == "first"
        yield running
        running.kill()


def test_hostile_lines_are_refused_and_the_server_goes_on(tmp_path):
    hostile = {
        b"not json\n": -32700,
        b"{\n": -32700,
        b"\xff\xfe\x00\n": -32700,
        b"[" * 50_000 + b"\n": -32700,
        b"NaN\n": -32700,
        b"[]\n": -32600,
        b"{}\n": -32600,
        b"7\n": -32600,
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n': -32600,
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}\n': -32600,
        b'{"text": "' + b"x" * (1 << 20) + b'"}\n': -32600,
    }
    answers, _ = answered(
        tmp_path / "data",
        *hostile,
        b"\n  \r\n",
        {"jsonrpc": "2.0", "method": "notifications/unheard-of"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        request(4, "tools/guess"),
        request(5, "tools/call"),
        request(7, "tools/list"),
        orjson.dumps(request(6, "ping")),  # the last line has no end
        max_body_mb=1,
    )
    refused = [each["error"]["code"] for each in answers if each["id"] is None]
    assert refused == list(hostile.values())
    rest = {each["id"]: each for each in answers if each["id"] is not None}
    assert rest.keys() == {"first", 4, 5, 6, 7}
    assert rest[4]["error"]["code"] == -32601
    assert rest[5]["error"]["code"] == -32602
    assert rest[6]["result"] == {}
    assert [tool["name"] for tool in rest[7]["result"]["tools"]] == list(TOOLS)
    assert not (tmp_path / "data").exists(), "nothing was asked of the storage"


def test_what_was_asked_before_the_end_of_the_input_is_answered_and_only_that_is_on_standard_output(tmp_path):
    answers, log = answered(
        tmp_path / "data",
        request(1, "tools/call", name="session_start", arguments={"name": "end of input"}),
        request(2, "tools/list"),
        log_level="debug",
    )
    assert {each["id"] for each in answers} == {"first", 1, 2}
    by_id = {each["id"]: each["result"] for each in answers if "result" in each}
    assert by_id[1]["structuredContent"]["name"] == "end of input"
    assert {"rag_query", "session_note"} <= {tool["name"] for tool in by_id[2]["tools"]}
    assert "serving MCP" in log
    assert [each["tool"] for each in audit_lines_of(tmp_path / "data" / "audit")] == ["session_start"]
    eventually(lambda: not processes_in(tmp_path / "data"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0(process, number):
    process.send_signal(number)
    assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_while_the_service_is_slow_to_say_whether_the_key_is_right(tmp_path, number):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = (*RUN_MAIN, "mcp", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ(data_dir=tmp_path)) as running:
            connection, _ = silent.accept()
            with connection:
                running.send_signal(number)
                assert running.wait(SECONDS) == 0


def test_the_end_of_the_input_ends_it_with_0(process):
    process.stdin.close()
    assert (process.wait(SECONDS), process.stdout.read()) == (0, b"")


def catches(pid, number):
    """Return whether a process has a handler for a signal. The interpreter takes its own away before it is gone."""
    try:
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except FileNotFoundError:
        return False
    return bool(int(told.get("SigCgt", "0"), 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_ending_process_ends_it_with_0(process, number):
    assert catches(process.pid, number)
    process.stdin.close()
    deadline = time.monotonic() + SECONDS
    while catches(process.pid, number):  # without a pause: what comes then is over within milliseconds
        assert time.monotonic() < deadline
    process.send_signal(number)
    assert process.wait(SECONDS) == 0


def test_a_client_that_does_not_read_does_not_keep_it_from_ending(process):
    longer_than_a_pipe = "x" * 200_000
    process.stdin.write(lines_of(request(2, longer_than_a_pipe), request(3, longer_than_a_pipe)))
    process.stdin.flush()
    first = process.stdout.read(1)
    process.send_signal(signal.SIGTERM)
    assert (first, process.wait(SECONDS)) == (b"{", 0)


def test_a_client_that_has_gone_ends_it_with_0(process):
    process.stdout.close()
    process.stdin.write(lines_of(request(2, "ping")))
    process.stdin.flush()
    assert process.wait(SECONDS) == 0


def test_a_directory_in_use_is_refused_to_a_second_process(tmp_path):
    data_dir = tmp_path / "data"

    async def shared():
        async with over_stdio(data_dir=data_dir, disk_floor_mb=1) as client:
            await client.call_tool("session_start", {"name": "first"})
            noted = await client.call_tool("session_note", {"note": "Grace maintains the flux compensator."})
            found = await client.call_tool("rag_query", {"query": "Who maintains it?", "oracles": ["persona"]})
            return noted, found, await called(over_stdio(data_dir=data_dir), "rag_collections")

    noted, found, second = within_bounds(shared)
    [result] = found.structured_content["results"]
    assert result["chunk_id"] == noted.structured_content["note_id"]
    assert second.is_error
    assert "is in use by process" in text_of(second)
    assert "rag-wrapper serve" in text_of(second)
    assert "serving http" not in text_of(second)


def test_a_wrong_setting_stops_the_start_and_a_service_that_does_not_answer_is_told_by_its_address(tmp_path):
    ended = subprocess.run(
        (*RUN_MAIN, "mcp"),
        env=environ(threads=1),
        capture_output=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"RAG_THREADS" in ended.stderr
    result = within_bounds(called, over_stdio("--url", "http://127.0.0.1:9", data_dir=tmp_path), "rag_collections")
    assert result.is_error
    assert "http://127.0.0.1:9" in text_of(result)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_the_end_of_the_input_ends_it_with_0(number):
    code = f"""
import os

import anyio

from interfaces.mcp.handshake import Begun
from interfaces.mcp.server import tool_server
from interfaces.mcp.stdio import serve_stdio

anyio.run(lambda: serve_stdio(tool_server(dict), Begun(), clean=str, max_line_bytes=1 << 20))
os.kill(os.getpid(), {int(number)})
"""
    ended = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    assert ended.returncode == 0
