"""Tools as MCP calls them, recorded in the audit log like those that are called over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from interfaces.tool import Json, Tool, needed_for
from schemas.access.callers import current
from schemas.errors import CollectionNotFoundError, RagError
from wrapper.audit import noted
from wrapper.audit.recording import Asked, Recorder
from wrapper.web.error_statuses import status_of

OK = 200


def noted_tools(tools: Mapping[str, Tool[Any]]) -> dict[str, Tool[Any]]:
    """Return the same tools; each call notes the status that its outcome has over HTTP."""
    return {name: replace(tool, run=partial(_noted, tool)) for name, tool in tools.items()}


def recorded_tools(tools: Mapping[str, Tool[Any]], recorder: Recorder) -> dict[str, Tool[Any]]:
    """Return the same tools for calls without an HTTP request; each call has a line as one over HTTP has, and raises
    what `Recorder` does, too."""
    return {name: replace(tool, run=partial(_recorded, recorder, tool)) for name, tool in noted_tools(tools).items()}


def _noted(tool: Tool[Any], arguments: Json) -> Any:
    try:
        outcome = tool.run(arguments)
    except Exception as error:
        noted.note_status(status_of(type(error) if isinstance(error, RagError) else RagError))
        if isinstance(error, CollectionNotFoundError):
            noted.note_missing(error.names)
        raise
    noted.note_status(OK)
    return outcome


def _recorded(recorder: Recorder, tool: Tool[Any], arguments: Json) -> Any:
    asked = Asked("POST", "/mcp", needed_for(tool.name))
    learnt = noted.begin()
    learnt.tool = tool.name
    try:
        recorder.check(asked, learnt)
        try:
            return tool.run(arguments)
        finally:
            recorder.record(asked, learnt, current(), OK)
    finally:
        noted.end()
