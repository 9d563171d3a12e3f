"""Memory that large requests leave behind goes back to the system, a moment after they are answered.

Python finds what refers to itself (an error that knows its cause, with the text it is about) only after many more
requests: it counts objects, however large they are. And the C library keeps what was freed for the threads that come,
in an arena for each, where one small object that stays holds what lies before it.
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
"""Every two seconds it was three to five hundredths of what adding documents costs."""
ARENAS = 2
MAPPED_BYTES = 1024 * 1024
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h

_is_due = threading.Event()


def bound_arenas() -> None:
    """To be called before there are threads: they share few arenas, and every block from `MAPPED_BYTES` on has pages of
    its own, which the system has back when it is freed. Does nothing where there is no glibc."""
    set_option = _c_function("mallopt")
    if set_option is not None:
        set_option(_M_ARENA_MAX, ARENAS)
        set_option(_M_MMAP_THRESHOLD, MAPPED_BYTES)


def note_answered(request: Mapping[str, Any]) -> None:
    """To be called when a request, as WSGI knows it, is answered: a large one leaves something to give back."""
    length = request.get("CONTENT_LENGTH") or ("0" if "HTTP_TRANSFER_ENCODING" not in request else "")
    if not length.isdigit() or int(length) >= LARGE_BODY_BYTES or "HTTP_CONTENT_ENCODING" in request:
        _is_due.set()


def give_back() -> None:
    """To be called now and then, outside of requests: does nothing unless a large request was answered since."""
    if _is_due.is_set():
        _is_due.clear()
        gc.collect()
        trim()


def keep_for_good() -> None:
    """What this process has by now it needs until its end: `give_back` need not look at it."""
    gc.collect()
    gc.freeze()


def trim() -> None:
    """Have glibc give back whole pages that nobody uses. Does nothing where there is another library."""
    release = _c_function("malloc_trim")
    if release is not None:
        release(0)


@cache
def _c_function(name: str) -> Callable[..., object] | None:
    """Of the C library that Python runs on, None where it has none of that name."""
    try:
        found: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
