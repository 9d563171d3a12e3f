"""The forms of the log: lines for people, or one JSON object a line for machines."""

from __future__ import annotations

from typing import TextIO

LOG_FORMATS = ("auto", "json", "console")


def is_for_people(log_format: str, stream: TextIO) -> bool:
    """Return whether the log is written for people: `auto`, and what is no format, is so where `stream` is a
    terminal."""
    return log_format == "console" or (log_format != "json" and stream.isatty())
