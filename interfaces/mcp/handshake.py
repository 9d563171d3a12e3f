"""The answer to a client's first message, before the protocol's library is there.

A client starts the process, sends `initialize` and waits. To import the library takes longer than a first answer may
take, and the answer depends on nothing in it, so a plain request is answered first and the library is imported then. It
gets the request all the same, since it counts on it; tests compare the two answers.
"""

from __future__ import annotations

import os
import select
import signal
from dataclasses import dataclass
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.release import release
from schemas.wire.json_in import decode

NAME = "rag-wrapper"
TITLE = "RAG knowledge base"
INSTRUCTIONS = """\
A knowledge base of documents, rules and notes. Ask rag_query with a question or the words you look for; results \
are fused from search by meaning, by words and in the notes of earlier sessions. rag_context gives the rules and facts \
on a topic as one text, or an overview without a topic. rag_gather reads the whole section or document around a \
result, when an excerpt is not enough. Where session tools are offered, start a session with session_start, keep what \
you learn with session_note, replacing notes that are no longer true, and end it with session_end."""
VERSIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
"""The versions of the protocol that begin with `initialize`."""
READ_BYTES = 1 << 16
_DEEPEST = 8

Json = dict[str, Any]


@dataclass(frozen=True)
class Begun:
    """What was read of the input so far, and the id of the request in it that has its answer, if there is one."""

    content: bytes = b""
    answered: str | int | None = None


def end_on_signals() -> None:
    """Have SIGTERM and SIGINT end the process with 0 while no event loop listens for them."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


def outlive_signals() -> None:
    """Have SIGTERM and SIGINT change nothing about how the process ends, which is about to. Handlers would not do: the
    interpreter goes back to the default before it is gone."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def begin(input_: int, output: int) -> Begun:
    """Answer the request that waits on the descriptor `input_` if it is a plain `initialize`. What has not arrived is
    not waited for."""
    if not select.select([input_], [], [], 0)[0]:
        return Begun()
    content = os.read(input_, READ_BYTES)
    line, end, _ = content.partition(b"\n")
    answer = answer_to(line) if end else None
    if answer is None:
        return Begun(content)
    written = orjson.dumps(answer) + b"\n"
    if len(written) > select.PIPE_BUF:  # a pipe might take a part of it
        return Begun(content)
    try:
        os.write(output, written)
    except OSError:  # the client has closed its end, or its pipe is full: the server sees to it
        return Begun(content)
    return Begun(content, answer["id"])


def answer_to(line: bytes) -> Json | None:
    """Return the answer to an `initialize` request, or None when the message is another, or such that the library may
    refuse it."""
    try:
        message = decode(line)
    except (orjson.JSONDecodeError, InvalidInputError):
        return None
    match message:
        case {"jsonrpc": "2.0", "id": int() | str() as id_, "method": "initialize", "params": dict() as params}:
            plain = len(message) == 4 and not isinstance(id_, bool) and _are_plain(params)
        case _:
            return None
    if not plain:
        return None
    result = {
        "capabilities": {"tools": {"listChanged": False}},
        "instructions": INSTRUCTIONS,
        "protocolVersion": params["protocolVersion"],
        "serverInfo": {"name": NAME, "title": TITLE, "version": release()},
    }
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def _are_plain(params: Json) -> bool:
    match params:
        case {
            "protocolVersion": str() as version,
            "capabilities": dict() as capabilities,
            "clientInfo": dict() as client,
        }:
            return (
                len(params) == 3
                and version in VERSIONS
                and client.keys() >= {"name", "version"}
                and client.keys() <= {"name", "version", "title"}
                and all(isinstance(each, str) for each in client.values())
                and all(_is_plain(name, each) for name, each in capabilities.items())
            )
    return False


def _is_plain(name: str, capability: Any) -> bool:
    if name == "roots" and isinstance(capability, dict):
        return all(key == "listChanged" and isinstance(value, bool) for key, value in capability.items())
    return _are_objects(capability, _DEEPEST)


def _are_objects(value: Any, deepest: int) -> bool:
    return isinstance(value, dict) and deepest > 0 and all(_are_objects(each, deepest - 1) for each in value.values())
