"""The MCP server, which lists and calls tools of the retrieval layer for both transports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.to_thread
import mcp_types as types
import structlog
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from interfaces.mcp.bounds import MAX_TOKENS, bounded, unquoted
from interfaces.mcp.messages import Answers, Requests
from interfaces.mcp.texts import readable
from schemas.access.credentials_in_text import without_credentials
from schemas.errors import RagError
from schemas.release import release

if TYPE_CHECKING:
    from interfaces.tool import Tool

log = structlog.get_logger(__name__)

INSTRUCTIONS = """\
A knowledge base of documents, rules and notes. Ask rag_query with a question or the words you look for; results \
are fused from search by meaning, by words and in the notes of earlier sessions. rag_context gives the rules and facts \
on a topic as one text, or an overview without a topic. rag_gather reads the whole section or document around a \
result, when an excerpt is not enough. Where session tools are offered, start a session with session_start, keep what \
you learn with session_note, replacing notes that are no longer true, and end it with session_end."""

T = TypeVar("T")
Run = Callable[[Callable[[], Any]], Awaitable[Any]]


async def in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread, for an event loop that has other work meanwhile."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


async def in_place(work: Callable[[], T]) -> T:
    """Run `work` at once, for an event loop that serves one request in a thread of its own."""
    return work()


def tool_server(tools: Mapping[str, Tool[Any]], *, run: Run = in_thread) -> Server[Any]:
    """Return a server of those of these tools that the caller may call."""

    def list_tools() -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool) for tool in tools.values() if tool.is_callers()])

    def call_tool(asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(asked.name)
        if tool is None or not tool.is_callers():
            raise MCPError(types.INVALID_PARAMS, without_credentials(f"Unknown tool: {asked.name}"))
        arguments = unquoted(asked.arguments or {}, tool.input_schema)
        result = tool(arguments)
        result = bounded(tool.name, result, _tokens(arguments))
        text = types.TextContent(text=readable(tool.name, result))
        return types.CallToolResult(content=[text], structured_content=result)

    return server_of(list_tools, call_tool, run=run)


def server_of(
    list_tools: Callable[[], types.ListToolsResult],
    call_tool: Callable[[types.CallToolRequestParams], types.CallToolResult],
    *,
    run: Run = in_thread,
) -> Server[Any]:
    """Return a server that calls these functions through `run`.

    A RagError is told by its sentence: as an error of the protocol when tools are listed, as an error of the tool when
    one is called.
    """

    async def list_all(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            return await run(list_tools)
        except RagError as error:
            raise MCPError(types.INTERNAL_ERROR, without_credentials(error.message)) from error

    async def call(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            return await run(lambda: call_tool(asked))
        except RagError as error:
            log.info("a tool refused", tool=asked.name, code=error.code)
            return _failure(without_credentials(error.message))
        except MCPError:
            raise
        except Exception:
            log.exception("a tool failed", tool=asked.name)
            return _failure("The tool failed for a reason that is in the log")

    return Server(
        "rag-wrapper",
        version=release(),
        title="RAG knowledge base",
        instructions=INSTRUCTIONS,
        on_list_tools=list_all,
        on_call_tool=call,
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Serve on standard input and output until the input has ended and is answered. Whatever else writes to standard
    output is redirected to standard error meanwhile."""
    requests = Requests()
    try:
        async with stdio_server(cast("anyio.AsyncFile[str]", requests)) as (read_stream, write_stream):
            requests.refuse = lambda error: write_stream.send(SessionMessage(error))
            await server.run(read_stream, Answers(write_stream, requests), server.create_initialization_options())
    except* OSError:  # the client has closed its end
        log.info("the client is gone")


def described(tool: Tool[Any]) -> types.Tool:
    """Return a tool as clients see it. Its title is that of its arguments' schema, else its name in words."""
    title = tool.input_schema.get("title") or tool.name.replace("_", " ").capitalize()
    return types.Tool(
        name=tool.name,
        title=title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=title,
            read_only_hint=tool.read_only,
            destructive_hint=False,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


def _tokens(arguments: object) -> int:
    """Return how long an answer may be, by arguments that were checked."""
    asked = arguments.get("max_tokens") if isinstance(arguments, Mapping) else None
    return MAX_TOKENS if asked is None else int(asked)


def _failure(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sentence)], is_error=True)
