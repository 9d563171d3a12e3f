"""What a process that parses strangers' files gives up: writing, the network, other programs, and more than its share.

The kernel holds the limits. An audit hook refuses what Python code would do beyond them, so a parser with a fault of
its own can neither fetch nor store anything.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_MAX_OPEN_FILES = 64
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.kill",
    "os.putenv",
    "shutil.",
    "tempfile.",
    "sqlite3.",
    "urllib.",
    "http.",
    "ctypes.dlopen",
)


def confine(seconds: float, memory_mb: int) -> None:
    """Confine this process for good. Beyond `seconds` of computing the kernel kills it; memory that is not to be had
    is a MemoryError."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    limits = {
        resource.RLIMIT_CPU: max(1, math.ceil(seconds)),
        resource.RLIMIT_AS: memory_mb * 1024 * 1024,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: _MAX_OPEN_FILES,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        # Code and data of Python and of the parsers may be read, nothing else.
        if flags & _WRITING or not _is_code(path):
            raise PermissionError(f"a parser may not open {path!r}")
    elif event in ("os.listdir", "os.scandir") and not _is_code(arguments[0]):
        raise PermissionError(f"a parser may not list {arguments[0]!r}")
    elif event.startswith(_REFUSED):
        raise PermissionError(f"a parser may not use {event}")


def _is_code(path: Any) -> bool:
    name = os.fsdecode(path) if isinstance(path, str | bytes) else ""
    return any(f"{name}/".startswith(f"{folder}/") for folder in _CODE) and "/../" not in name


_CODE = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix, *(each for each in sys.path if each.startswith("/"))})
