"""Tools that are called without an HTTP request, recorded in the audit log like those that are called by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from interfaces.tool import Json, Tool, needed_for
from schemas.access.callers import current
from schemas.errors import RagError
from wrapper.audit import noted
from wrapper.audit.recording import Asked, Recorder
from wrapper.web.error_statuses import status_of

OK = 200


def recorded_tools(tools: Mapping[str, Tool[Any]], recorder: Recorder) -> dict[str, Tool[Any]]:
    """Return the same tools; each call has a line as one over HTTP has, and raises what `Recorder` does, too."""
    return {name: replace(tool, run=partial(_run, recorder, tool)) for name, tool in tools.items()}


def _run(recorder: Recorder, tool: Tool[Any], arguments: Json) -> Any:
    asked = Asked("POST", "/mcp", needed_for(tool.name))
    learnt = noted.begin()
    learnt.tool = tool.name
    try:
        recorder.check(asked, learnt)
        try:
            outcome = tool.run(arguments)
        except Exception as error:
            status = status_of(type(error) if isinstance(error, RagError) else RagError)
            recorder.record(asked, learnt, current(), status)
            raise
        recorder.record(asked, learnt, current(), OK)
        return outcome
    finally:
        noted.end()
