"""Connect the official MCP client over both transports."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp import Client, StdioServerParameters

from tests.support.commands import RUN_MAIN

CLIENT_SECONDS = 120.0

T = TypeVar("T")


def over_http(url: str) -> Client:
    """Return a client that is yet to be entered."""
    return Client(f"{url}/mcp")


def over_stdio(*arguments: object, **settings: object) -> Client:
    """Return the same for `rag-wrapper mcp`, started as a client starts it; `settings` are RAG_ variables in lower
    case."""
    command, *rest = (*RUN_MAIN, "mcp", *map(str, arguments))
    environ = {f"RAG_{name.upper()}": str(value) for name, value in settings.items()}
    return Client(StdioServerParameters(command=command, args=rest, env=environ))


def within_bounds(function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run a coroutine function to its end within a time limit and return its result."""

    async def bounded() -> T:
        with anyio.fail_after(CLIENT_SECONDS):
            return await function(*arguments)

    return anyio.run(bounded)


async def called(client: Client, name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return the result of one call, made by a client of its own."""
    async with client:
        return await client.call_tool(name, arguments)


def text_of(result: Any) -> str:
    [content] = result.content
    text: str = content.text
    return text
