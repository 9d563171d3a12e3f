"""A process that splits and embeds for jobs, and takes what the questions leave of the machine.

In a worker that answers questions, a batch of the model takes as long as some twenty questions, and splitting a long
document holds Python's interpreter lock for seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from retrieval.chunking import Chunk, SplitDocument, Syntax
from retrieval.ingest.profiles import Chunking
from retrieval.reading import ReadingLimits, UnreadableError
from retrieval.workers.worker_process import WorkerProcess, WorkerTimeoutError
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from schemas.records import Vector

EMBED_SECONDS = 300.0
"""How long the vectors of one call may take; a process that takes longer counts as hanging, and is ended."""
MAX_THREADS = 2
_KINDS: dict[str, type[RagError]] = {each.__name__: each for each in (ConfigurationError, InvalidInputError, RagError)}


class BackgroundHelper(WorkerProcess):
    """The process that helps with jobs, started with its first task; threads wait for their turn.

    `owner` is the data directory, which the command line of the process names. A text may take as long to be split as
    `limits` let a file of its length be read. `clock` returns seconds.
    """

    def __init__(
        self, owner: Path, limits: ReadingLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # In the session of the service: Linux may weigh sessions against each other whatever their niceness.
        arguments = ["-m", "retrieval.jobs.background_child", "--for", str(owner)]
        super().__init__("The process that helps with jobs", arguments, clock=clock)
        self._limits = limits or ReadingLimits()

    def embed(self, connection: EmbeddingProvider, texts: list[str]) -> Vector:
        """Embed texts as the connection would, float32 (len(texts), dimension).

        Raises what its `embed` raises, and WorkerEndedError.
        """
        seconds = min(EMBED_SECONDS, deadlines.seconds_left())
        told, numbers = self._ask(connection, {"embed": texts}, seconds=seconds)
        return np.frombuffer(numbers, dtype="<f4").astype(np.float32).reshape(told["shape"])

    def split(self, chunking: Chunking, syntax: Syntax, text: str) -> SplitDocument:
        """Split a text as `chunking` would. Raises UnreadableError when that takes too long, and
        WorkerEndedError."""
        rules = {each.name: getattr(chunking, each.name) for each in fields(chunking) if each.name != "embedding"}
        task = {"split": text, "syntax": syntax.value, "chunking": rules}
        seconds = self._limits.wall_seconds_for(len(text))
        try:
            told, _ = self._ask(chunking.embedding, task, seconds=seconds)
        except WorkerTimeoutError as error:
            raise UnreadableError(f"takes more than {round(seconds, 1):g} seconds to be split") from error
        return SplitDocument([Chunk(*each) for each in told["chunks"]], told["warnings"])

    def _ask(
        self, connection: EmbeddingProvider, task: dict[str, Any], *, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        opening = orjson.dumps({"provider": connection.id, "config": _frugal(connection)})
        told, more = self.ask(task, seconds=seconds, opening=opening)
        if "error" in told:
            fault = told["error"]
            raise _KINDS.get(fault["kind"], UnavailableError)(fault["message"], code=fault["code"], **fault["details"])
        return told, more


def _frugal(connection: EmbeddingProvider) -> dict[str, object]:
    """Return the configuration with few threads, where it says how many there are."""
    if "threads" not in connection.connection_schema().get("properties", {}):
        return connection.config
    most = min(MAX_THREADS, os.cpu_count() or 1)
    return {**connection.config, "threads": min(most, connection.config.get("threads", most))}
