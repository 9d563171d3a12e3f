"""`python -m retrieval.jobs.background_child`: splits and embeds texts at a low priority, with a model of its own.

It reads questions from its standard input and writes answers to its standard output (`retrieval.workers.messages`).
The first message is the connection, `{"provider": …, "config": …}`. The answer to `{"embed": [text, …]}` is
`{"shape": […]}` and the float32 numbers; that to `{"split": text, "syntax": …, "chunking": {…}}` is `{"chunks":
[[…], …], "warnings": […]}`; to a question that failed it is `{"error": {…}}`. The process ends when its standard input
does, and when nobody reads its answers any more.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from dataclasses import astuple
from typing import Any, cast

import numpy as np
import orjson

from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from retrieval.chunking import Syntax
from retrieval.ingest.profiles import Chunking
from retrieval.workers.messages import read_message, write_messages
from retrieval.workers.stopping import begin_in_background
from schemas.errors import RagError

NICE = 10
"""The niceness of the process: where questions keep all cores busy it has a tenth of one. At a lower priority it would
have next to nothing, and a busy neighbour on the machine would keep uploads waiting for ever."""


def main() -> None:
    begin_in_background(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    opening = read_message(questions)
    if opening is None:
        return
    threading.Thread(target=_end_with_reader, args=(answers.fileno(),), name="reader", daemon=True).start()
    told, embedding = orjson.loads(opening), None
    while (message := read_message(questions)) is not None and read_message(questions) is not None:
        task = orjson.loads(message)
        try:
            if embedding is None:
                registry = discover(ProviderRegistry())
                made = registry.connect("embedding", told["provider"], told["config"], ProviderContext())
                embedding = cast(EmbeddingProvider, made)
            answer = _embedded(embedding, task) if "embed" in task else (_split(embedding, task), b"")
        except RagError as error:
            answer = _told(error), b""
        try:
            write_messages(answers, *answer)
        except BrokenPipeError:
            # Whoever asked is gone. The usual end would write the rest once more, and fail aloud.
            os._exit(0)


def _end_with_reader(answers: int) -> None:
    """End the process when nobody reads its answers any more, in the middle of a task too, which may take minutes."""
    poll = select.poll()
    poll.register(answers, 0)  # only whether the other end is closed
    poll.poll()
    os._exit(0)


def _embedded(embedding: EmbeddingProvider, task: dict[str, Any]) -> tuple[bytes, bytes]:
    vectors = np.ascontiguousarray(embedding.embed(task["embed"]), dtype="<f4")
    return orjson.dumps({"shape": vectors.shape}), vectors.tobytes()


def _split(embedding: EmbeddingProvider, task: dict[str, Any]) -> bytes:
    told = task["chunking"]
    chunking = Chunking(**{**told, "levels": tuple(told["levels"])}, embedding=embedding)
    split = chunking.splitter(Syntax(task["syntax"]))(task["split"])
    chunks = [astuple(each) for each in split.chunks]
    return orjson.dumps({"chunks": chunks, "warnings": list(split.warnings)})


def _told(error: RagError) -> bytes:
    told = {"kind": type(error).__name__, "message": error.message, "code": error.code, "details": error.details}
    return orjson.dumps({"error": told}, default=str)


if __name__ == "__main__":
    main()
