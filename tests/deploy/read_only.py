"""Have a thread, and every process that it starts, write nowhere but to some places: Landlock, which needs no rights."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CHANGES = sum(1 << bit for bit in (1, *range(4, 15)))
"""Writing, removing, making, moving and truncating (linux/landlock.h)."""
_NEEDED_VERSION = 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def writing_only_to(places: Iterable[Path], work: Callable[[], T]) -> T:
    """Return what the work returns, done by a thread of its own; skip the test where the kernel cannot do this."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION) < _NEEDED_VERSION:
        pytest.skip("this kernel has no Landlock that bounds truncating")

    def restricted() -> T:
        rules = libc.syscall(_CREATE_RULESET, ctypes.byref(_Ruleset(_CHANGES)), ctypes.c_size_t(8), 0)
        for place in places:
            opened = os.open(place, os.O_PATH)
            allowed = _CHANGES if place.is_dir() else _WRITE_FILE | _TRUNCATE
            assert libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(_PathBeneath(allowed, opened)), 0) == 0
            os.close(opened)
        assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.syscall(_RESTRICT_SELF, rules, 0) == 0
        os.close(rules)
        return work()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(restricted).result()
