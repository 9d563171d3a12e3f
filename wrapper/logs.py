"""Logs: one JSON object a line in production, readable in a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog


def configure(level: str, style: str) -> None:
    """Set structlog up for this process. `style` is `json`, `console` or `auto` (console when stderr is a terminal)."""
    readable = style == "console" or (style == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if readable:
        ending: list[Any] = [structlog.dev.ConsoleRenderer()]
        factory: Any = structlog.PrintLoggerFactory(sys.stderr)
    else:
        ending = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dumps)]
        factory = structlog.BytesLoggerFactory(sys.stderr.buffer)
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def _dumps(event: dict[str, Any], **_: Any) -> bytes:
    return orjson.dumps(event, default=str)
