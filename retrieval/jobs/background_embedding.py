"""Embedding beside the questions: the local model works in a process of its own, which takes what others leave.

A question's text and a job's texts would otherwise share the model of the worker, where a batch of a job takes as long
as some twenty questions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import orjson
import structlog

from providers.embeddings.base import EmbeddingProvider
from retrieval.jobs.embedding_child import read_message, write_message
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from schemas.records import Vector

log = structlog.get_logger(__name__)

IDLE_SECONDS = 120.0
"""How long the process is kept without work. It holds a model in memory and takes seconds to start."""
MAX_THREADS = 2
_KINDS: dict[str, type[RagError]] = {each.__name__: each for each in (ConfigurationError, InvalidInputError)}


class BackgroundEmbedding:
    """The process that embeds for jobs, started with the first texts; threads wait for their turn.

    `owner` is the data directory, which the command line of the process names. `clock` returns seconds.
    """

    def __init__(self, owner: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._owner = owner
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

        Raises what its `embed` raises, and UnavailableError when the process ends or is closed.
        """
        opening = orjson.dumps({"provider": connection.id, "config": _frugal(connection)})
        with self._turn:
            try:
                process = self._running(opening)
                return _ask(process, texts)
            except (OSError, EOFError) as error:
                self._end()
                raise UnavailableError(
                    "The process that embeds in the background ended", code="background_embedding_ended"
                ) from error
            finally:
                self._used_at = self._clock()

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

    def _running(self, opening: bytes) -> subprocess.Popen[bytes]:
        if self._process is not None and (self._connection != opening or self._process.poll() is not None):
            self._end()
        if self._is_closed:
            raise EOFError
        if self._process is None:
            # In the session of the service: Linux may weigh sessions against each other whatever their niceness.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "retrieval.jobs.embedding_child", "--for", str(self._owner)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._connection = opening
            log.info("embedding in the background", pid=self._process.pid)
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


def _ask(process: subprocess.Popen[bytes], texts: list[str]) -> Vector:
    assert process.stdin is not None
    assert process.stdout is not None
    write_message(process.stdin, orjson.dumps(texts))
    answer = _next(process)
    told = orjson.loads(answer)
    if "error" in told:
        error = told["error"]
        kind = _KINDS.get(error["kind"], UnavailableError)
        raise kind(error["message"], code=error["code"], **error["details"])
    return np.frombuffer(_next(process), dtype="<f4").astype(np.float32).reshape(told["shape"])


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
