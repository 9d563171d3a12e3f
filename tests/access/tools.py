"""Calls of each tool of the table of access, and their answers over both transports of MCP."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mcp.shared.exceptions import MCPError

from schemas.access.table import TOOLS
from schemas.tool_schemas import read_tool_schemas
from tests.access.keyed import CANARY, MINE, KeyedService
from tests.support.mcp_clients import over_stdio

Json = dict[str, Any]
ARGUMENTS: dict[str, list[Json]] = {
    "rag_query": [{"query": "door", "oracles": ["lexical"]}, {"query": "door"}],
    "rag_context": [{"topic": "door"}, {}],
    "rag_gather": [{"collection": MINE, "chunk_id": "open", "by": "section"}],
    "rag_context_search": [{"query": "door"}],
    "rag_context_index": [{"content": "The door opens at nine."}],
    "session_start": [{"name": "a session"}],
    "session_note": [{"note": "The door sticks."}],
}
"""Arguments with which each tool does something for whoever may call it."""


class Call(NamedTuple):
    tool: str
    arguments: Json


class Outcome(NamedTuple):
    is_error: bool
    text: str
    """All that came back."""


CALLS = [Call(tool, arguments) for tool in TOOLS for arguments in ARGUMENTS.get(tool, [{}])]


def naming(collection: str) -> list[Call]:
    """Return a call for each way in which a tool may name a collection, with a chunk of somebody else where the tool
    asks for one."""
    found = []
    for tool, given in CALLS:
        known = read_tool_schemas(tool).input["properties"]
        for name, value in (("collection", collection), ("collections", [collection])):
            if name in known:
                chunk = {"chunk_id": f"{CANARY}-1"} if "chunk_id" in known else {}
                found.append(Call(tool, {**given, name: value, **chunk}))
    return found


def called_over_http(keyed: KeyedService, kind: str, calls: Sequence[Call]) -> tuple[set[str], list[Outcome]]:
    """Return (the tools that a key of this kind is offered, the outcome of each call)."""

    def ask(method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"MCP_Protocol_Version": "2025-06-18", "Accept": "application/json, text/event-stream"}
        return keyed.ask("POST", "/mcp", keyed.keys[kind], message, **headers)

    def outcome(call: Call) -> Outcome:
        answer = ask("tools/call", name=call.tool, arguments=call.arguments)
        found = answer.json()
        return Outcome("error" in found or bool(found["result"].get("isError")), answer.text)

    return {each["name"] for each in ask("tools/list").json()["result"]["tools"]}, list(map(outcome, calls))


async def called_over_stdio(keyed: KeyedService, kind: str, calls: Sequence[Call]) -> tuple[set[str], list[Outcome]]:
    """Return the same from `rag-wrapper mcp`."""
    outcomes = []
    async with over_stdio("--url", keyed.url, api_key=keyed.keys[kind]) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        for call in calls:
            try:
                result = await client.call_tool(call.tool, call.arguments)
            except MCPError as error:
                outcomes.append(Outcome(True, str(error)))
            else:
                outcomes.append(Outcome(bool(result.is_error), result.model_dump_json()))
    return listed, outcomes
