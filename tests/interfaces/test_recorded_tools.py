"""Tools that MCP calls have the lines of those that are called over HTTP."""

import pytest

from interfaces.recorded_tools import recorded_tools
from interfaces.tool import Tool
from schemas.access.callers import ANYBODY, acting_as
from schemas.errors import (
    AuditUnwritableError,
    ConflictError,
)
from tests.wrapper.audit.conftest import lines_of
from wrapper.audit import noted
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.noted import note_collection
from wrapper.audit.recording import Recorder


@pytest.fixture(autouse=True)
def _acting():
    with acting_as(ANYBODY):
        yield


def tool(name, run, *, read_only=False):
    return Tool(name, "", {"type": "object"}, {"type": "object"}, run, lambda outcome: outcome, read_only=read_only)


def taken(arguments):
    note_collection("rag-notes")
    return {"taken": True}


def refused(arguments):
    raise ConflictError("It is there already")


def broken(arguments):
    raise KeyError("secret")


TOOLS = {
    each.name: each
    for each in (
        tool("session_note", taken),
        tool("rag_query", taken, read_only=True),
        tool("session_end", refused),
        tool("session_start", broken),
    )
}


@pytest.fixture
def recorded(tmp_path):
    log = AuditLog(tmp_path / "audit", max_bytes=1 << 20, requests_at_once=4)
    yield recorded_tools(TOOLS, Recorder(log, with_reads=False))
    log.close()


def test_each_call_that_writes_has_a_line_with_its_outcome(recorded, tmp_path):
    assert recorded["session_note"]({}) == recorded["rag_query"]({}) == {"taken": True}
    with pytest.raises(ConflictError):
        recorded["session_end"]({})
    with pytest.raises(KeyError):
        recorded["session_start"]({})
    lines = lines_of(tmp_path / "audit")
    assert [(each["route"], each["tool"], each["collection"], each["status"]) for each in lines] == [
        ("/mcp", "session_note", "rag-notes", 200),
        ("/mcp", "session_end", None, 409),
        ("/mcp", "session_start", None, 500),
    ]
    assert {(each["scope"], each["key_id"], each["address"]) for each in lines} == {("write", "open", None)}
    assert noted._now.get() is None


def test_a_tool_that_cannot_be_recorded_is_not_run(recorded, tmp_path):
    (tmp_path / "audit").write_text("in the way")
    with pytest.raises(AuditUnwritableError):
        recorded["session_end"]({})
    assert recorded["rag_query"]({}) == {"taken": True}
