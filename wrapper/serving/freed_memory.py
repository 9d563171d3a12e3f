"""Giving back to the system the memory that large requests leave behind, a moment after they are answered.

Python finds objects that refer to themselves (an error that knows its cause, with the text it is about) only after many
more requests: it counts objects, however large they are. And the C library keeps freed memory for later threads, in an
arena for each, where one small object that stays holds everything before it.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

LARGE_BODY_BYTES = 128 * 1024
GIVE_BACK_SECONDS = 10.0
"""The time between two calls of `give_back`. Every two seconds, they took three to five hundredths of the cost of
adding documents."""
ARENAS = 2
MAPPED_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h

_is_due = threading.Event()


def bound_arenas() -> None:
    """Make threads share few arenas, and give every block from `MAPPED_BYTES` on pages of its own.

    The system gets such pages back when the block is freed. Call it before there are threads. It does nothing where
    there is no glibc.
    """
    set_option = _c_function("mallopt")
    if set_option is not None:
        set_option(_M_ARENA_MAX, ARENAS)
        set_option(_M_MMAP_THRESHOLD, MAPPED_BYTES)


def note_answered(request: Mapping[str, Any]) -> None:
    """Note that a request, as WSGI describes it, was answered: a large one leaves memory to give back."""
    length = request.get("CONTENT_LENGTH") or ("0" if "HTTP_TRANSFER_ENCODING" not in request else "")
    if not length.isdigit() or int(length) >= LARGE_BODY_BYTES or "HTTP_CONTENT_ENCODING" in request:
        _is_due.set()


def give_back() -> None:
    """Give memory back if a large request was answered since the last call.

    Call it at intervals, outside of requests.
    """
    if _is_due.is_set():
        _is_due.clear()
        gc.collect()
        trim()


def keep_for_good() -> None:
    """Exempt from collection all objects that exist now, because the process needs them until its end, and have those
    that come later collected.

    What is exempted before a fork stays in memory that the processes share: a collection writes to every object.
    """
    gc.freeze()
    gc.enable()


def trim() -> None:
    """Make glibc give back whole pages that are free. Does nothing with another C library."""
    release = _c_function("malloc_trim")
    if release is not None:
        release(0)


@cache
def _c_function(name: str) -> Callable[..., object] | None:
    """Return a function of the C library that Python runs on, None where there is none of that name."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
