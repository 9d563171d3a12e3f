"""`rag-wrapper mcp` as a process: hostile input, its end, and its standard output."""

import io
import signal
import socket
import subprocess

import anyio
import orjson
import pytest

from interfaces.commands.scratch_service import processes_in
from interfaces.mcp.messages import Requests
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


pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def process(tmp_path):
    """The running command, with its first answer read."""
    with subprocess.Popen(
        (*RUN_MAIN, "mcp"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ(data_dir=tmp_path / "data", disk_floor_mb=1, log_level="info"),
    ) as running:
        running.stdin.write(lines_of(INITIALIZE))
        running.stdin.flush()
        assert orjson.loads(running.stdout.readline())["id"] == "first"
        yield running
        running.kill()


def ask(process, *messages):
    """Return the answer to the last of these messages."""
    process.stdin.write(lines_of(*messages))
    process.stdin.flush()
    return orjson.loads(process.stdout.readline())


def test_lines_that_are_no_messages_are_answered_under_their_ids_and_the_server_goes_on(process, tmp_path):
    parse, invalid = -32700, -32600
    hostile = {
        b"not json": (None, parse),
        b"\xff\xfe\x00": (None, parse),
        b"\xed\xa0\x80": (None, parse),
        b'{"jsonrpc": "2.0", "id": 7, "method": "\\ud800"}': (7, parse),
        b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}': (None, parse),
        b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}': ("a", invalid),
        b'{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": {"n": 12345678901234567890123}}': (8, invalid),
        b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "params": ' + b'{"a":' * 220 + b"1" + b"}" * 221: (9, invalid),
        b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}': (None, invalid),
        b"[" * 50_000: (None, parse),
        b"NaN": (None, parse),
        b"[]": (None, invalid),
        b"7": (None, invalid),
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}': (None, invalid),
        b'{"text": "' + b"x" * (1 << 20) + b'"}': (None, invalid),
    }
    for line, expected in hostile.items():
        told = ask(process, line + b"\n")
        assert (told["id"], told["error"]["code"]) == expected, line[:60]
    assert ask(process, b"\n  \r\n\xef\xbb\xbf" + lines_of(request(7, "ping"))) == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {},
    }
    answer = ask(process, INITIALIZED, request(7, "tools/list"))
    assert [tool["name"] for tool in answer["result"]["tools"]] == list(TOOLS)
    notification = {"jsonrpc": "2.0", "method": "notifications/unheard-of"}
    guessed = ask(process, notification, {"jsonrpc": "2.0", "id": 3, "result": {}}, request(4, "tools/guess"))
    assert (guessed["id"], guessed["error"]["code"]) == (4, -32601)
    wrong = ask(process, request(5, "tools/call"))
    assert (wrong["id"], wrong["error"]["code"]) == (5, -32602)
    unknown = ask(process, request(6, "tools/call", name=f"rw_abcdefgh_{'A' * 43}"))
    assert unknown["error"]["message"] == "Unknown tool: rw_abcdefgh_…"
    assert not (tmp_path / "data").exists(), "nothing was asked of the storage"


def test_only_answers_are_on_standard_output_and_the_end_closes_what_was_opened(process, tmp_path):
    started = request(1, "tools/call", name="session_start", arguments={"name": "end of input"})
    assert ask(process, INITIALIZED, started)["result"]["structuredContent"]["name"] == "end of input"
    out, log = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, b"")
    assert b"serving MCP" in log
    assert [each["tool"] for each in audit_lines_of(tmp_path / "data" / "audit")] == ["session_start"]
    eventually(lambda: not processes_in(tmp_path / "data"))


def test_what_is_asked_before_the_input_ends_is_answered(process):
    out, _ = process.communicate(lines_of(INITIALIZED, request(2, "tools/call", name="rag_collections")), SECONDS)
    assert [orjson.loads(line)["id"] for line in out.splitlines()] == [2]


def test_what_was_cancelled_is_not_waited_for(monkeypatch):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    content = io.BytesIO(lines_of(request(1, "tools/list"), cancelled))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))

    async def read():
        with anyio.fail_after(5):
            return [line async for line in Requests()]

    assert len(anyio.run(read)) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_closes_what_was_opened(process, tmp_path, number):
    assert "result" in ask(process, INITIALIZED, request(1, "tools/call", name="rag_collections"))
    assert processes_in(tmp_path / "data")
    process.send_signal(number)
    assert process.wait(SECONDS) == 0
    eventually(lambda: not processes_in(tmp_path / "data"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_while_the_service_is_slow_to_say_whether_the_key_is_right(tmp_path, number):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = (*RUN_MAIN, "mcp", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environ(data_dir=tmp_path)) as running:
            connection, _ = silent.accept()
            with connection:
                running.send_signal(number)
                assert running.wait(SECONDS) == 0


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
    process.stdin.close()
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
