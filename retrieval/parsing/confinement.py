"""What a process that parses strangers' files gives up: writing, the network, other programs, and more than its share.

The kernel holds the limits and refuses the system calls, also to parsers written in C. An audit hook refuses the same
to Python code, and reading what is neither code nor data of Python.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Any

from retrieval.parsing.parsed import UnreadableError

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_GET_NO_NEW_PRIVS = 39
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
# Instructions of the kernel's filter language (linux/bpf_common.h), and what a filter may answer (linux/seccomp.h).
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4  # places in seccomp_data
_OTHER_ABI = 0x40000000  # from this number on: calls of x32, which has no numbers of its own here
# Numbers of asm/unistd_64.h and asm-generic/unistd.h. Which calls: sockets; processes and threads; other processes;
# names and modes of files; rings, which can do all of it.
_REFUSED_CALLS = {
    "x86_64": (
        0xC000003E,
        "41 42 43 44 49 50 53 56 57 58 59 62 76 77 82 83 84 85 86 87 88 90 91 92 93 94 101 133 200 234 258 259 260 263 "
        "264 265 266 268 288 310 311 316 322 424 425 426 427 435 438 452",
    ),
    "aarch64": (
        0xC00000B7,
        "33 34 35 36 37 38 45 46 52 53 54 55 117 129 130 131 198 199 200 201 202 203 206 220 221 242 270 271 276 281 "
        "424 425 426 427 435 438 452",
    ),
}
_MAX_OPEN_FILES = 64
_LESS = "The process that reads files is less confined than it should be"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED_EVENTS = """
    socket. subprocess. shutil. tempfile. sqlite3. urllib. http. ctypes.dlopen os.system os.exec os.fork os.posix_spawn
    os.spawn os.startfile os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate os.chmod os.chown os.kill
    os.putenv
"""
_REFUSED = tuple(_REFUSED_EVENTS.split())


def lacking(machine: str = platform.machine()) -> list[str]:
    """Return in sentences what the kernel of this machine has not, by which `confine` would confine a process. Nothing
    is changed."""
    if machine not in _REFUSED_CALLS:
        return [f"{_LESS}: the system calls of {machine} are not known here, so none is refused to it (seccomp)"]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) < 0:
        return [f"{_LESS}: the kernel refuses it no system calls (no_new_privs: {os.strerror(ctypes.get_errno())})"]
    # A kernel that takes filters looks for this one, at no address, before anything else.
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None, 0, 0)
    if ctypes.get_errno() != errno.EFAULT:
        return [f"{_LESS}: the kernel refuses it no system calls (seccomp: {os.strerror(ctypes.get_errno())})"]
    return []


def confine(seconds: float, memory_mb: int, machine: str = platform.machine()) -> None:
    """Confine this process for good, as far as nothing is `lacking`. Beyond `seconds` of computing the kernel kills it;
    memory that is not to be had is a MemoryError. Raises UnreadableError when the kernel does not do it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Where both limits of the processor time are equal, the end comes by a signal that others send, too.
    cpu_seconds = max(1, math.ceil(seconds))
    limits = {
        resource.RLIMIT_CPU: (cpu_seconds, cpu_seconds + 1),
        resource.RLIMIT_AS: (memory_mb * 1024 * 1024,) * 2,
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_NPROC: (0, 0),
        resource.RLIMIT_NOFILE: (_MAX_OPEN_FILES,) * 2,
    }
    for limit, values in limits.items():
        most = resource.getrlimit(limit)[1]  # nobody may raise it, so a lower one stays
        soft, hard = (value if most == resource.RLIM_INFINITY else min(value, most) for value in values)
        resource.setrlimit(limit, (soft, hard))
    if not lacking(machine):
        _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        architecture, numbers = _REFUSED_CALLS[machine]
        _refuse_calls(libc, architecture, [int(number) for number in numbers.split()])
    sys.addaudithook(_refuse)


def _check(done: int) -> None:
    if done != 0:
        raise UnreadableError(
            f"cannot be read: the process that reads it cannot be confined: {os.strerror(ctypes.get_errno())}"
        )


def _refuse_calls(libc: ctypes.CDLL, architecture: int, calls: Sequence[int]) -> None:
    """Have the kernel refuse system calls with EPERM."""
    refuse, allow = _FAIL | errno.EPERM, _ALLOW
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, refuse),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_AT_LEAST, len(calls) + 1, 0, _OTHER_ABI),
        *((_JUMP_IF_EQUAL, len(calls) - place, 0, call) for place, call in enumerate(calls)),
        (_RETURN, 0, 0, allow),
        (_RETURN, 0, 0, refuse),
    ]
    # Of the kernel's structures sock_filter and sock_fprog.
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(instructions))
    _check(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0))


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
