"""The process that parses, as its user sees it: questions in, answers out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from retrieval.parsing.child import Question
from retrieval.parsing.confinement import lacking
from retrieval.parsing.parsed import UNREADABLE
from retrieval.workers.worker_process import WorkerEndedError, WorkerProcess, WorkerTimeoutError

log = structlog.get_logger(__name__)

_ROOT = str(Path(__file__).resolve().parents[2])
_GRACE_SECONDS = 30.0  # the process itself ends what is too slow; this is for when it cannot
_FAULT = {"code": UNREADABLE, "message": "cannot be read: the process that reads it ended"}


def not_confined() -> list[str]:
    """Return in sentences why the process that reads files is not confined as it should be."""
    return [f"The process that reads files is less confined than it should be: {why}" for why in lacking()]


def parsing_process(nice: int) -> WorkerProcess:
    """Return a process that parses, to whose niceness `nice` is added."""
    return WorkerProcess(
        "The process that reads files",
        ["-P", "-m", "retrieval.parsing.child", "--nice", str(nice)],
        # Nothing of this process's environment is passed on: it may hold keys.
        env={"PYTHONPATH": _ROOT, "PYTHONUTF8": "1"},
        cwd="/",
        is_apart=True,
    )


def parse(process: WorkerProcess, question: Question, content: bytes) -> dict[str, Any]:
    """Return the answer. A question that ends with the process is asked once more, of a new one."""
    if process.pid is None:
        for sentence in not_confined():
            log.warning(sentence)
    for _ in range(2):
        try:
            return process.ask(asdict(question), content, seconds=question.wall_seconds + _GRACE_SECONDS)[0]
        except WorkerTimeoutError:
            break
        except WorkerEndedError:
            continue
    return _FAULT
