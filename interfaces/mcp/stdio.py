"""MCP on standard input and output: one message a line, nothing else.

The library's own transport ignores lines that are not messages, and drops requests that arrive right before the end of
the input. Here the former are refused and the latter are answered.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
from anyio import CancelScope
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCError, JSONRPCRequest, JSONRPCResponse

from interfaces.mcp.handshake import READ_BYTES, Begun, end_on_signals
from interfaces.mcp.messages import Refused, cleaned_answer, read_message
from schemas.access.credentials_in_text import Cleaner

ANSWERING_SECONDS = 30.0
"""The number of seconds for which requests are still answered after the input has ended."""


async def serve_stdio(server: Server[Any], begun: Begun, *, clean: Cleaner, max_line_bytes: int) -> None:
    """Serve what was read already and what comes, until the input ends, or until SIGTERM or SIGINT. Whatever else
    writes to standard output is redirected to standard error meanwhile. Errors are told as `clean` leaves them."""
    wire = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    with CancelScope() as scope:
        _cancel_on_signals(scope)
        try:
            await _serve(server, begun, wire, clean, max_line_bytes)
        finally:
            end_on_signals()  # what was opened is still to be closed


def _cancel_on_signals(scope: CancelScope) -> None:
    """Have SIGTERM and SIGINT cancel. The library's receiver would leave the default behind, if only for a moment."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(scope.cancel))


async def _serve(server: Server[Any], begun: Begun, wire: int, clean: Cleaner, max_line_bytes: int) -> None:
    to_server, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = write_stream.clone()
    unanswered = Unanswered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write_messages, wire, from_server, begun.answered, clean, unanswered, tasks.cancel_scope)
        tasks.start_soon(_read_messages, begun.content, to_server, refusals, unanswered, max_line_bytes)
        await server.run(read_stream, write_stream, server.create_initialization_options())


class Unanswered:
    """Counts the requests that wait for their answers."""

    def __init__(self) -> None:
        self._count = 0
        self._none = anyio.Event()
        self._none.set()

    def add(self) -> None:
        if self._count == 0:
            self._none = anyio.Event()
        self._count += 1

    async def remove(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._none.set()

    async def wait_for_none(self) -> None:
        await self._none.wait()


async def _read_messages(
    was_read: bytes,
    to_server: ObjectSendStream[SessionMessage | Exception],
    refusals: ObjectSendStream[SessionMessage],
    unanswered: Unanswered,
    max_line_bytes: int,
) -> None:
    async with to_server, refusals:
        async for line in _lines(was_read, 0, max_line_bytes):
            try:
                if len(line) > max_line_bytes:
                    raise Refused(INVALID_REQUEST, f"A message is longer than {max_line_bytes >> 20} MB")
                message = read_message(line)
            except Refused as refused:
                await refusals.send(SessionMessage(refused.answer))
                continue
            metadata = None
            if isinstance(message, JSONRPCRequest):
                unanswered.add()
                metadata = ServerMessageMetadata(on_request_unanswered=unanswered.remove)
            await to_server.send(SessionMessage(message, metadata))
        with anyio.move_on_after(ANSWERING_SECONDS):
            await unanswered.wait_for_none()


async def _write_messages(
    wire: int,
    from_server: ObjectReceiveStream[SessionMessage],
    answered: str | int | None,
    clean: Cleaner,
    unanswered: Unanswered,
    scope: CancelScope,
) -> None:
    async with from_server:
        async for sent in from_server:
            message = sent.message
            answers = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
            if answers is not None and answers == answered:
                answered = None
                await unanswered.remove()
                continue
            content = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            line = cleaned_answer(content, clean) + b"\n"
            try:
                await _write(wire, line)
            except OSError:  # the client has closed its end
                scope.cancel()
                return
            if answers is not None:
                await unanswered.remove()


async def _lines(was_read: bytes, descriptor: int, most_bytes: int) -> AsyncIterator[bytes]:
    """Yield the lines of a file that begins with what was read already, without blank ones. A line that is longer than
    `most_bytes` is cut one byte after that."""
    line = bytearray()
    while content := was_read or await _read(descriptor):
        was_read = b""
        *ends, begun = content.split(b"\n")
        for end in ends:
            line += end[: most_bytes + 1 - len(line)]
            if line.strip():
                yield bytes(line)
            line.clear()
        line += begun[: most_bytes + 1 - len(line)]
    if line.strip():
        yield bytes(line)


async def _read(descriptor: int) -> bytes:
    with suppress(PermissionError):  # a regular file is always ready, and cannot be waited for
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, READ_BYTES)


async def _write(descriptor: int, content: bytes) -> None:
    """Write in pieces that a pipe takes at once, so that a client that does not read cannot keep a signal from being
    heard."""
    while content:
        with suppress(PermissionError):
            await anyio.wait_writable(descriptor)
        content = content[os.write(descriptor, content[: select.PIPE_BUF]) :]
