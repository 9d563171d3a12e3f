"""A process that splits and embeds for jobs, and takes what the questions leave of the machine.

In a worker that answers questions, a batch of the model takes as long as some twenty questions, and splitting a long
document holds Python's interpreter lock for seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
import structlog

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from retrieval.chunking import Chunk, SplitDocument, Syntax
from retrieval.ingest.profiles import Chunking
from retrieval.jobs.background_child import read_message, write_message
from retrieval.reading import ReadingLimits, UnreadableError
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from schemas.records import Vector
from schemas.threads import begin, begin_thread

log = structlog.get_logger(__name__)

IDLE_SECONDS = 120.0
"""How long the process is kept without work. It holds a model in memory and takes seconds to start."""
EMBED_SECONDS = 300.0
"""How long the vectors of one call may take; a process that takes longer counts as hanging, and is ended."""
MAX_THREADS = 2
HELPER_ENDED = "background_helper_ended"
_KINDS: dict[str, type[RagError]] = {each.__name__: each for each in (ConfigurationError, InvalidInputError, RagError)}


class HelperTimeoutError(UnavailableError):
    """The process took too long, and was ended."""

    code = HELPER_ENDED


class BackgroundHelper:
    """The process that helps with jobs, started with its first task; threads wait for their turn.

    `owner` is the data directory, which the command line of the process names. A text may take as long to be split as
    `limits` let a file of its length be read. `clock` returns seconds.
    """

    def __init__(
        self, owner: Path, limits: ReadingLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._owner = owner
        self._limits = limits or ReadingLimits()
        self._clock = clock
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = b""
        self._used_at = clock()
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """Return the process's id, None while there is none."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def embed(self, connection: EmbeddingProvider, texts: list[str]) -> Vector:
        """Embed texts as the connection would, float32 (len(texts), dimension).

        Raises what its `embed` raises, and UnavailableError when the process ends, takes too long or is closed.
        """
        seconds = min(EMBED_SECONDS, deadlines.seconds_left())
        told, numbers = self._ask(connection, {"embed": texts}, messages=2, seconds=seconds)
        return np.frombuffer(numbers, dtype="<f4").astype(np.float32).reshape(told["shape"])

    def split(self, chunking: Chunking, syntax: Syntax, text: str) -> SplitDocument:
        """Split a text as `chunking` would. Raises UnreadableError when that takes too long, and UnavailableError when
        the process ends or is closed."""
        rules = {each.name: getattr(chunking, each.name) for each in fields(chunking) if each.name != "embedding"}
        task = {"split": text, "syntax": syntax.value, "chunking": rules}
        seconds = self._limits.wall_seconds_for(len(text))
        try:
            told, _ = self._ask(chunking.embedding, task, messages=1, seconds=seconds)
        except HelperTimeoutError as error:
            raise UnreadableError(f"takes more than {round(seconds, 1):g} seconds to be split") from error
        return SplitDocument([Chunk(*each) for each in told["chunks"]], told["warnings"])

    def rest(self) -> None:
        """End the process when it was not needed for a while."""
        if self._process is not None and self._turn.acquire(blocking=False):
            try:
                if self._clock() - self._used_at >= IDLE_SECONDS:
                    self._end()
            finally:
                self._turn.release()

    def close(self) -> None:
        """End the process at once, whatever it is doing; there is no other one afterwards."""
        self._is_closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._turn:
            self._end()

    def _ask(
        self, connection: EmbeddingProvider, task: dict[str, Any], *, messages: int, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Return the answer to a task and, where it has two messages, the second one. Raises HelperTimeoutError when
        that takes longer, after the process was ended."""
        opening = orjson.dumps({"provider": connection.id, "config": _frugal(connection)})
        with self._turn:
            is_late = threading.Event()

            def end() -> None:
                is_late.set()
                if (process := self._process) is not None:
                    process.kill()

            watchdog = threading.Timer(seconds, end)
            try:
                process = self._running(opening)
                begin(watchdog)
                assert process.stdin is not None
                write_message(process.stdin, orjson.dumps(task))
                told = orjson.loads(_next(process))
                more = _next(process) if messages > 1 and "error" not in told else b""
            except (OSError, EOFError) as error:
                self._end()
                if is_late.is_set():
                    raise HelperTimeoutError(
                        f"The process that helps with jobs took more than {seconds:g} s"
                    ) from error
                raise UnavailableError("The process that helps with jobs ended", code=HELPER_ENDED) from error
            finally:
                watchdog.cancel()
                self._used_at = self._clock()
        if "error" in told:
            fault = told["error"]
            raise _KINDS.get(fault["kind"], UnavailableError)(fault["message"], code=fault["code"], **fault["details"])
        return told, more

    def _running(self, opening: bytes) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._connection != opening or self._process.poll() is not None):
            self._end()
        if self._is_closed:
            raise EOFError
        if self._process is None:
            # In the session of the service: Linux may weigh sessions against each other whatever their niceness.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "retrieval.jobs.background_child", "--for", str(self._owner)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            begin_thread("helper-lines", _log_lines, self._process.stderr)
            self._connection = opening
            log.info("a process helps with jobs", pid=self._process.pid)
            assert self._process.stdin is not None
            write_message(self._process.stdin, opening)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def _log_lines(said: IO[bytes]) -> None:
    """Log what the process writes to its standard error, until it ends."""
    with suppress(OSError, ValueError), said:
        for line in said:
            log.warning("the process that helps with jobs says", line=line.decode(errors="replace").rstrip())


def _next(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    answer = read_message(process.stdout)
    if answer is None:
        raise EOFError
    return answer


def _frugal(connection: EmbeddingProvider) -> dict[str, object]:
    """Return the configuration with few threads, where it says how many there are."""
    if "threads" not in connection.connection_schema().get("properties", {}):
        return connection.config
    most = min(MAX_THREADS, max(1, (os.cpu_count() or 1) // 2))
    return {**connection.config, "threads": min(most, connection.config.get("threads", most))}
