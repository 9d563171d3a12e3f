"""The audit log of the service in this process, and calls of tools by MCP."""

from __future__ import annotations

import pytest

from tests.wrapper.audit.conftest import lines_of


@pytest.fixture
def lines(app):
    """`lines()` returns what has been added to the log since it was last called."""
    return new_lines(app)


def new_lines(app):
    folder = app.extensions["rag.service"].settings.data_dir / "audit"
    seen = len(lines_of(folder))

    def new():
        nonlocal seen
        found = lines_of(folder)
        seen, found = len(found), found[seen:]
        return found

    return new


def mcp(client, tool, headers=None, **arguments):
    """Call a tool by MCP over HTTP and return the answer."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return client.post("/mcp", json=message, headers=headers)
