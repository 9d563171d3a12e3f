"""Lines of the log made of what others write: libraries, Python itself, and whatever prints.

With this, a process of the service has one format from its first line to its last. What is written by C code beside
Python, such as the last words of a process that crashes, cannot be captured.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import traceback
from typing import Any, TextIO

import structlog

from schemas.access.credentials_in_text import Cleaner, cleaned_beginning, thorough, without_credentials

MAX_EVENT_CHARACTERS = 8_192
MAX_TRACEBACK_CHARACTERS = 16_384
"""The longest that the line of a library is, with its traceback: it may quote what strangers have sent."""
ENDING = (KeyboardInterrupt, SystemExit)


class Forwarding(logging.Handler):
    """Makes lines of the log of what libraries log with Python's `logging`, cleaned thoroughly and bounded.

    `name` is the logger that lines name, empty for the library's own.
    """

    def __init__(self, name: str = "", clean: Cleaner | None = None) -> None:
        super().__init__()
        self._name = name
        self.clean = clean or thorough(without_credentials)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = {}
            if record.exc_info and record.exc_info[1] is not None:
                told = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
                said["exception"] = cleaned_beginning(told, MAX_TRACEBACK_CHARACTERS, self.clean)
            event = cleaned_beginning(record.getMessage().strip(), MAX_EVENT_CHARACTERS, self.clean)
            structlog.get_logger(self._name or record.name).log(record.levelno, event, **said)
        except Exception:
            structlog.get_logger(__name__).exception("a line of a library cannot be logged", library=record.name)


class Lines(io.TextIOBase):
    """A file for text, each of whose lines becomes a line of the log. Lines of several threads do not mix.

    `original` is the stream that this one stands for.
    """

    def __init__(self, name: str, level: int, original: TextIO) -> None:
        self.original = original
        self._name = name
        self._level = level
        self._begun = threading.local()

    def write(self, text: str) -> int:
        *whole, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text = rest
        for line in whole:
            self._log(line)
        return len(text)

    def flush(self) -> None:
        """Log nothing yet: a line ends with its line break."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.original.isatty()

    def fileno(self) -> int:
        return self.original.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def _log(self, line: str) -> None:
        if line.strip():
            said = cleaned_beginning(line.rstrip(), MAX_EVENT_CHARACTERS, thorough(without_credentials))
            structlog.get_logger(self._name).log(self._level, said)


def capture() -> None:
    """Make lines of the log of all that this process writes from now on: what libraries log and print, warnings, and
    exceptions that nobody has caught."""
    root = logging.getLogger()
    root.handlers = [Forwarding()]
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _ended_thread
    sys.unraisablehook = _unraisable
    for name, level in (("stdout", logging.INFO), ("stderr", logging.ERROR)):
        stream = getattr(sys, name)
        if not isinstance(stream, Lines):
            setattr(sys, name, Lines(name, level, stream))


def _uncaught(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    structlog.get_logger("python").critical("an exception ended the process", exc_info=error)


def _ended_thread(thrown: threading.ExceptHookArgs) -> None:
    if isinstance(thrown.exc_value, ENDING):
        return
    name = thrown.thread.name if thrown.thread else ""
    structlog.get_logger("python").error("an exception ended a thread", thread=name, exc_info=thrown.exc_value)


def _unraisable(thrown: Any) -> None:
    said = thrown.err_msg or "an exception had nowhere to go"
    structlog.get_logger("python").error(said, object=repr(thrown.object)[:200], exc_info=thrown.exc_value)
