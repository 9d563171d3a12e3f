"""Logs: one JSON object a line in production, readable in a terminal. Credentials are cut out of every line."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, BinaryIO, TextIO, cast

import orjson
import structlog

from schemas.access.credentials_in_text import Cleaner, without_credentials
from schemas.observing.log_formats import is_for_people

FIRST = ("timestamp", "level", "logger", "event")
"""What every line begins with."""


class Unfailing:
    """A file for log lines whose writes never fail.

    Lines that cannot be written, because the disk is full or the reader is gone, are lost.
    """

    def __init__(self, file: IO[Any]) -> None:
        self._file = file

    def write(self, line: str | bytes) -> None:
        with suppress(OSError, ValueError):
            self._file.write(line)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()


class _Named(structlog.BytesLogger):
    """Writes lines of the logger of this name."""

    def __init__(self, file: BinaryIO, name: str = "") -> None:
        super().__init__(file)
        self.name = name


class _NamedForPeople(structlog.PrintLogger):
    def __init__(self, file: TextIO, name: str = "") -> None:
        super().__init__(file)
        self.name = name


def configure(level: str, style: str) -> None:
    """Set structlog up for this process. `style` is `json`, `console` or `auto` (console when stderr is a terminal)."""
    stream = getattr(sys.stderr, "original", sys.stderr)  # what `captured_lines` writes comes here in the end
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_name,
    ]
    if is_for_people(style, stream):
        # rich would show the values of variables, and keys are among them.
        ending: list[Any] = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        for_people = cast(TextIO, Unfailing(stream))

        def factory(name: str = "") -> Any:
            return _NamedForPeople(for_people, name)
    else:
        ending = [
            structlog.processors.format_exc_info,
            _in_order,
            structlog.processors.JSONRenderer(serializer=_dumps),
        ]
        for_machines = cast(BinaryIO, Unfailing(stream.buffer))

        def factory(name: str = "") -> Any:
            return _Named(for_machines, name)

    structlog.configure(
        processors=[*shared, *ending, _cleaning(without_credentials)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def clean_lines(clean: Cleaner) -> Callable[[], None]:
    """Pass the text of every line through `clean` until the returned function is called."""
    cleaned = _cleaning(clean)
    processors = structlog.get_config()["processors"]
    processors.append(cleaned)  # in place: loggers that are in use hold this list

    def end() -> None:
        if cleaned in processors:
            processors.remove(cleaned)

    return end


def _cleaning(clean: Cleaner) -> Callable[[Any, str, Any], Any]:
    def cleaned(_logger: Any, _method: str, line: Any) -> Any:
        if isinstance(line, bytes):
            return clean(line.decode(errors="replace")).encode()
        return clean(line) if isinstance(line, str) else line

    return cleaned


def _add_name(logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    if name := getattr(logger, "name", ""):  # other loggers, such as those of commands, have none
        event.setdefault("logger", name)
    return event


def _in_order(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    return {**{name: event[name] for name in FIRST if name in event}, **event}


def _dumps(event: dict[str, Any], **_: Any) -> bytes:
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # a name of a file need not be Unicode
        return json.dumps(event, default=str).encode()
