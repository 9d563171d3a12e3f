"""Logs: one JSON object a line in production, readable in a terminal. Credentials are cut out of every line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, BinaryIO, TextIO, cast

import orjson
import structlog

from schemas.access.credentials_in_text import Cleaner, cleaned_beginning, without_credentials

MAX_LINE_CHARACTERS = 32_768
"""The longest that a line of a library is, with room for a traceback: it may quote what strangers have sent."""


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


def configure(level: str, style: str) -> None:
    """Set structlog up for this process. `style` is `json`, `console` or `auto` (console when stderr is a terminal)."""
    readable = style == "console" or (style == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if readable:
        # rich would show the values of variables, and keys are among them.
        ending: list[Any] = [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        factory: Any = structlog.PrintLoggerFactory(cast(TextIO, Unfailing(sys.stderr)))
    else:
        ending = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dumps)]
        factory = structlog.BytesLoggerFactory(cast(BinaryIO, Unfailing(sys.stderr.buffer)))
    structlog.configure(
        processors=[*shared, *ending, _cleaning(without_credentials)],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


class CleanFormatter(logging.Formatter):
    """Formats the lines of a library's logger, with `clean` applied to each, and cuts them to their greatest length."""

    def __init__(self, clean: Cleaner, formatter: logging.Formatter) -> None:
        super().__init__()
        self._clean, self._formatter = clean, formatter

    def format(self, record: logging.LogRecord) -> str:
        return cleaned_beginning(self._formatter.format(record), MAX_LINE_CHARACTERS, self._clean)


def clean_logger(logger: logging.Logger, clean: Cleaner) -> None:
    """Pass every line that a library's logger writes through `clean`."""
    for handler in logger.handlers:
        handler.setFormatter(CleanFormatter(clean, handler.formatter or logging.Formatter()))


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


def _dumps(event: dict[str, Any], **_: Any) -> bytes:
    return orjson.dumps(event, default=str)
