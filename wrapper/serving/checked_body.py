"""Tells what gunicorn finds wrong with a body in words that routes know."""

from __future__ import annotations

from typing import Any

from gunicorn.http.errors import ParseException

from wrapper.web.slow_clients import MalformedBodyError


class CheckedReader:
    """Reads a body with one of gunicorn's readers."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes. Raises MalformedBodyError, which does not quote what was sent."""
        try:
            content: bytes = self._reader.read(size)
        except ParseException:
            raise MalformedBodyError("malformed chunks") from None
        return content
