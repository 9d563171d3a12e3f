"""Fork the product's own commands from a process that has imported the product, instead of starting Python anew.

Imports take most of the processor time of a command and of the start of a service. `Forked` takes the place of
`subprocess.Popen`: a command line of `rag-wrapper` becomes a fork of the prepared process, is a child of this process,
and shows its command line and environment in /proc. Everything else is started as ever, and so is a command whose
environment would change what Python itself does.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.support.costs import shared

RUN_MAIN = (sys.executable, "-W", "error", "-c", "from interfaces.cli import main; main(prog_name='rag-wrapper')")
SCRIPT = str(Path(sys.executable).with_name("rag-wrapper"))
PROJECT = Path(__file__).resolve().parents[2]
ROOM = "x" * 32_768
"""Memory for the command line and the environment that a fork shows: /proc reads them where the system put them when the
program was started."""
OF_PYTHON = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_", "OPENBLAS_", "OMP_", "PATH")
HARMLESS = {"PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONUNBUFFERED"}
BEGUN_WITH = dict(os.environ)
"""The environment of the prepared process, whatever a test changes meanwhile."""
SET_CHILD_SUBREAPER = 36  # of prctl(2)
METRICS = "PROMETHEUS_MULTIPROC_DIR"


class Forked(subprocess.Popen):
    """A Popen that forks `rag-wrapper` from the prepared process where that makes no difference to the command."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        self._options = options
        super().__init__(args, *more, **options)

    def _execute_child(self, args: Any, *more: Any) -> None:
        words, options = _own_words(args), self._options
        if words is None or not _is_plain(options):
            super()._execute_child(args, *more)
            return
        ends = more[9:15]  # of the pipes that Popen made, each as read and written
        reading, _, _, writing, _, complaining = ends
        self.pid = PreparedProcess.of_this_process().fork(
            files=[standard if end == -1 else end for standard, end in enumerate((reading, writing, complaining))],
            words=words,
            shown=[os.fsdecode(word) for word in args],
            warnings_are_errors=tuple(args[: len(RUN_MAIN)]) == RUN_MAIN,
            environ=dict(os.environ if options.get("env") is None else options["env"]),
            folder=os.fspath(options.get("cwd") or os.getcwd()),
            new_session=bool(options.get("start_new_session")),
        )
        self._child_created = True
        self._close_pipe_fds(*ends)


def _own_words(args: Any) -> list[str] | None:
    """Return the words behind `rag-wrapper`, None for the command line of another program."""
    if isinstance(args, str | bytes | os.PathLike):
        return None
    words = [os.fsdecode(word) for word in args]
    for start in ([SCRIPT], list(RUN_MAIN)):
        if words[: len(start)] == start:
            return words[len(start) :]
    return None


def _is_plain(options: Mapping[str, Any]) -> bool:
    """Return whether a process with these options of Popen differs in nothing that a fork cannot have."""
    plain = {"stdin", "stdout", "stderr", "env", "cwd", "start_new_session", "text", "encoding", "errors", "bufsize"}
    plain |= {"universal_newlines", "close_fds", "limit"}
    given = {name for name, value in options.items() if value}
    return given <= plain and options.get("close_fds", True) and _deciding(options.get("env")) == _deciding(BEGUN_WITH)


def _deciding(environ: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables that decide how Python itself and its libraries work."""
    found = os.environ if environ is None else environ
    return {name: text for name, text in found.items() if name.startswith(OF_PYTHON) and name not in HARMLESS}


class PreparedProcess:
    """The process that has imported everything and forks on request. Each process of tests starts its own when one is
    first needed, and takes it along when it ends."""

    _own: PreparedProcess | None = None

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.support.forking", str(theirs.fileno()), ROOM]
        environ = {**BEGUN_WITH, "ROOM": ROOM}
        self._process = subprocess.Popen(command, env=environ, cwd=PROJECT, pass_fds=[theirs.fileno()])
        theirs.close()
        atexit.register(self.end)

    @classmethod
    def of_this_process(cls) -> PreparedProcess:
        if cls._own is None:
            with shared("all"):
                cls._own = cls()
                assert cls._own._socket.recv(1), "the prepared process has ended"
        return cls._own

    def fork(self, *, files: Sequence[int], **order: object) -> int:
        """Return the process id of a new child of this process, which has `files` as 0, 1 and 2."""
        with self._lock:
            # Who loses its parent becomes a child of the nearest ancestor that asks for it. Waiting, signals and
            # processor time are then as with any child.
            _adopt(True)
            try:
                content = json.dumps(order).encode()
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
                self._socket.sendmsg([len(content).to_bytes(4, "big")], rights)
                self._socket.sendall(content)
                answer = self._socket.recv(4, socket.MSG_WAITALL)
            finally:
                _adopt(False)
        assert len(answer) == 4, "the prepared process has ended"
        return int.from_bytes(answer, "big")

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


def _adopt(whether: bool) -> None:
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, int(whether), 0, 0, 0)


def main(control: socket.socket) -> None:
    """Import everything, then fork on each request until the other end is closed."""
    from wrapper.serving.before_imports import begin

    begin()
    # prometheus-client decides when it is imported whether several processes count together, as they do in a service;
    # a process that has been forked opens its files in the folder that is named by then.
    folder = os.environ[METRICS] = tempfile.mkdtemp(prefix="rag-wrapper-forks-")
    try:
        _serve(control)
    finally:
        shutil.rmtree(folder)  # here alone: a fork ends elsewhere


def _serve(control: socket.socket) -> None:
    from interfaces import cli, compose

    compose.import_all()
    for place in [place for place, _ in cli.COMMANDS.values()] + [
        "interfaces.start_checks:",
        "gunicorn.app.wsgiapp:",
    ]:
        import_module(place.partition(":")[0])
    gc.collect()
    gc.freeze()
    gc.enable()
    control.send(b".")
    while True:
        size, rights, _, _ = socket.recv_fds(control, 4, 3)
        if not size:
            return
        order = json.loads(control.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                _become(order, rights)
            os.write(writing, child.to_bytes(4, "big"))
            os._exit(0)
        os.waitpid(between, 0)
        for end in (*rights, writing):
            os.close(end)
        control.sendall(os.read(reading, 4))
        os.close(reading)


def _become(order: Mapping[str, Any], files: Sequence[int]) -> None:
    """Be the command until it ends."""
    code = 1
    try:
        if order["new_session"]:
            os.setsid()
        moved = [os.dup(file) for file in files]  # out of the way of 0, 1 and 2
        for standard, file in enumerate(moved):
            os.dup2(file, standard)
        _close_others(os.environ[METRICS])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["folder"])
        _show(order["shown"], order["environ"])
        folder = os.environ[METRICS]
        os.environ.clear()
        os.environ.update({METRICS: folder} | order["environ"])
        for name, standard, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            setattr(sys, name, _text(standard, mode))
        sys.argv = ["rag-wrapper", *order["words"]]
        if order["warnings_are_errors"]:
            sys.warnoptions[:] = ["error"]
            warnings.simplefilter("error")
        from interfaces.cli import main

        main(prog_name="rag-wrapper")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _close_others(kept: str) -> None:
    """Close every file but 0, 1, 2 and those in the folder `kept`, which prometheus-client closes itself."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if int(name) > 2 and not os.readlink(f"/proc/self/fd/{name}").startswith(kept):
                os.close(int(name))


def _text(standard: int, mode: str) -> io.TextIOWrapper:
    """Return a standard stream as Python itself opens it."""
    raw = open(standard, f"{mode}b", closefd=False)  # noqa: SIM115
    before = sys.__stderr__ if standard == 2 else sys.__stdout__
    return io.TextIOWrapper(
        raw,
        encoding=before.encoding,
        errors="backslashreplace" if standard == 2 else before.errors,
        line_buffering=standard == 2 or os.isatty(standard),
    )


def _show(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Let /proc show this command line and environment, as far as there is room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first_word, end_of_words, first_variable, end_of_variables = map(int, fields[45:49])
    for content, begin, end in (
        (words, first_word, end_of_words),
        ([f"{name}={text}" for name, text in environ.items()], first_variable, end_of_variables),
    ):
        written = b"".join(os.fsencode(each) + b"\0" for each in content)[: end - begin - 1]
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, written, len(written))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        main(_control)
