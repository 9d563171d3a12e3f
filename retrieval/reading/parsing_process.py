"""The process that parses, as its user sees it: questions in, answers out, started again after a fault."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import structlog

from retrieval.parsing.child import Question
from retrieval.parsing.confinement import lacking
from retrieval.parsing.parsed import UNREADABLE
from schemas.threads import begin

log = structlog.get_logger(__name__)

_ROOT = str(Path(__file__).resolve().parents[2])
_GRACE_SECONDS = 30.0  # the process itself ends what is too slow; this is for when it cannot
_FAULT = {"code": UNREADABLE, "message": "cannot be read: the process that reads it ended"}


def not_confined() -> list[str]:
    """Return in sentences why the process that reads files is not confined as it should be."""
    return [f"The process that reads files is less confined than it should be: {why}" for why in lacking()]


class ParsingProcess:
    """One process, started with the first question and used for all that follow. Threads wait for their turn."""

    def __init__(self, nice: int) -> None:
        self._nice = nice
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, question: Question, content: bytes) -> dict[str, Any]:
        """Return the answer. One that ends with the process is asked again once, of a new one."""
        with self._turn:
            for _ in range(2):
                with suppress(OSError, EOFError):
                    return self._ask(self._running(), question, content)
                self._end()
            return _FAULT

    def close(self) -> None:
        with self._turn:
            self._end()

    def _ask(self, process: subprocess.Popen[bytes], question: Question, content: bytes) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(question.wall_seconds + _GRACE_SECONDS, process.kill)
        begin(watchdog)
        try:
            process.stdin.write(orjson.dumps(asdict(question)) + b"\n")
            process.stdin.write(content)
            process.stdin.flush()
            length = process.stdout.read(8)
            if len(length) < 8:
                raise EOFError
            answer = process.stdout.read(int.from_bytes(length, "big"))
            if len(answer) < int.from_bytes(length, "big"):
                raise EOFError
        finally:
            watchdog.cancel()
        read: dict[str, Any] = orjson.loads(answer)
        return read

    def _running(self) -> subprocess.Popen[bytes]:
        """Return this process's own child. That of a parent, which a fork has inherited, is left to the parent."""
        if self._process is not None and (self._owner != os.getpid() or self._process.poll() is not None):
            self._end()
        if self._process is None:
            for sentence in not_confined():
                log.warning(sentence)
            # Nothing of this process's environment is passed on: it may hold keys.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "retrieval.parsing.child", "--nice", str(self._nice)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": _ROOT, "PYTHONUTF8": "1"},
                start_new_session=True,  # Ctrl-C is for whoever asks
            )
            self._owner = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._owner == os.getpid():
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
