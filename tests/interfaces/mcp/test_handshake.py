"""The first answer of `rag-wrapper mcp` on standard input and output, which does not wait for the protocol's library."""

import json
import os
import select
import signal
import subprocess
from contextlib import closing, contextmanager

import anyio
import mcp_types
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from interfaces.mcp.handshake import VERSIONS, Begun, answer_to, begin
from interfaces.mcp.server import tool_server
from tests.interfaces.conftest import environ
from tests.interfaces.mcp.test_stdio import INITIALIZE, SECONDS, answered, lines_of, request
from tests.support.commands import RUN_MAIN

NESTED = st.recursive(
    st.just({}) | st.just({}) | st.booleans() | st.none() | st.text(max_size=2),
    lambda below: st.dictionaries(st.sampled_from(["listChanged", "form", "context", "requests", "x"]), below),
    max_leaves=4,
)
CAPABILITIES = st.dictionaries(
    st.sampled_from(["roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "unheard-of"]),
    NESTED,
    max_size=2,
)
SOMETHING = st.none() | st.booleans() | st.integers() | st.text(max_size=2) | st.just({}) | st.just([])
SOME_TEXT = st.text(max_size=3)


@st.composite
def first_messages(draw):
    """An `initialize` request of which one part, at most, is anything."""
    client = {"name": draw(SOME_TEXT), "version": draw(SOME_TEXT)}
    params = {
        "protocolVersion": draw(st.sampled_from(sorted(VERSIONS))),
        "capabilities": draw(CAPABILITIES),
        "clientInfo": client,
    }
    message = {"jsonrpc": "2.0", "id": draw(SOME_TEXT | st.integers(-(2**63), 2**64 - 1)), "method": "initialize"}
    message["params"] = params
    part, names = draw(
        st.sampled_from(
            [
                (message, ["id", "params", "jsonrpc", "method", "more"]),
                (params, ["protocolVersion", "clientInfo", "capabilities", "_meta"]),
                (client, ["name", "version", "title", "websiteUrl", "icons"]),
            ]
        )
    )
    if draw(st.booleans()):
        part[draw(st.sampled_from(names))] = draw(SOMETHING)
    return message


def librarys_answer(message):
    """Return what the protocol's library answers to a first message."""

    async def ask():
        to_server, read_stream = anyio.create_memory_object_stream(0)
        write_stream, from_server = anyio.create_memory_object_stream(0)
        server = tool_server(dict)
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks, to_server, from_server:
                options = server.create_initialization_options()
                tasks.start_soon(server.run, read_stream, write_stream, options)
                await to_server.send(SessionMessage(mcp_types.jsonrpc_message_adapter.validate_python(message)))
                answer = await from_server.receive()
                tasks.cancel_scope.cancel()
        return orjson.loads(answer.message.model_dump_json(by_alias=True, exclude_unset=True))

    return anyio.run(ask)


@contextmanager
def pipe(content=b""):
    """Yield the two ends of a pipe that holds `content`."""
    out, into = os.pipe()
    with closing(os.fdopen(out, "rb")) as reading, closing(os.fdopen(into, "wb", buffering=0)) as writing:
        writing.write(content)
        yield reading, writing


def begun_with(content):
    """Return (what `begin` makes of an input that holds `content`, what it answers)."""
    with pipe(content) as (reading, _), pipe() as (answers, output):
        begun = begin(reading.fileno(), output.fileno())
        output.close()
        return begun, answers.read()


@given(first_messages())
@example({**INITIALIZE, "id": 2**70})
@example({**INITIALIZE, "params": {**INITIALIZE["params"], "_meta": -(2**70)}})
def test_an_answer_is_the_librarys(message):
    assert answer_to(json.dumps(INITIALIZE).encode()) is not None
    answer = answer_to(json.dumps(message).encode())  # integers of any length, which orjson does not write
    if answer is not None:
        assert answer == librarys_answer(message)


@pytest.mark.parametrize("version", sorted(HANDSHAKE_PROTOCOL_VERSIONS))
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"roots": {"listChanged": True}},
        {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}},
        {"tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}}},
    ],
)
def test_what_clients_send_is_answered_as_the_library_would(version, capabilities):
    client = {"name": "editor", "title": "Editor", "version": "1.2"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = answer_to(orjson.dumps(message))
    assert answer is not None
    assert answer == librarys_answer(message)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"not json\n",
        b"[" * 5000 + b"\n",
        b'{"jsonrpc": "2.0", "id": 99999999999999999999999, "method": "initialize", "params": {}}\n',
        lines_of(request(1, "ping"), INITIALIZE),
        lines_of(INITIALIZE)[:-1],
        lines_of(request(1, "initialize", protocolVersion="2025-11-25")),
        lines_of(INITIALIZE | {"id": "x" * select.PIPE_BUF}),
        lines_of(request(1, "initialize", **INITIALIZE["params"] | {"capabilities": {"sampling": {"tools": True}}})),
    ],
)
def test_what_is_no_plain_request_is_left_to_the_library(content):
    assert begun_with(content) == (Begun(content), b"")


def test_what_comes_behind_the_request_is_kept_and_the_versions_are_those_that_begin_with_initialize():
    content = lines_of(INITIALIZE, request(2, "tools/list")) + b'{"begun'
    begun, answer = begun_with(content)
    assert begun == Begun(content, "first")
    assert answer.count(b"\n") == 1
    assert orjson.loads(answer)["id"] == "first"
    assert frozenset(HANDSHAKE_PROTOCOL_VERSIONS) == VERSIONS


def test_a_client_that_has_closed_its_end_is_left_to_the_server():
    content = lines_of(INITIALIZE)
    with pipe(content) as (reading, _), pipe() as (answers, output):
        answers.close()
        assert begin(reading.fileno(), output.fileno()) == Begun(content)


@pytest.mark.usefixtures("processes")
def test_the_request_is_answered_once(tmp_path):
    answers, _ = answered(tmp_path / "data", request(2, "tools/list"), request("first", "ping"))
    assert [each["id"] for each in answers].count("first") == 2
    assert [each["result"] for each in answers if each["id"] == "first"][-1] == {}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_neither_the_first_answer_nor_a_signal_waits_for_the_library(tmp_path, number):
    library = tmp_path / "never-imported" / "mcp_types"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("import signal\nsignal.pause()\n")
    env = environ(data_dir=tmp_path / "data", log_level="error") | {"PYTHONPATH": str(library.parent)}
    with (
        pipe(lines_of(INITIALIZE)) as (reading, _),
        subprocess.Popen((*RUN_MAIN, "mcp"), stdin=reading, stdout=subprocess.PIPE, env=env) as process,
    ):
        assert orjson.loads(process.stdout.readline())["id"] == "first"
        process.send_signal(number)
        assert process.wait(SECONDS) == 0
