import gc
import subprocess
import sys
import weakref

import pytest

from wrapper.serving import freed_memory


class Node:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.mark.parametrize(
    ("request_", "is_large"),
    [
        ({}, False),
        ({"CONTENT_LENGTH": ""}, False),
        ({"CONTENT_LENGTH": "131071"}, False),
        ({"CONTENT_LENGTH": "131072"}, True),
        ({"CONTENT_LENGTH": "100", "HTTP_CONTENT_ENCODING": "gzip"}, True),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, True),
    ],
)
def test_memory_freed_by_requests_that_may_be_large_is_given_back_once(monkeypatch, request_, is_large):
    trimmed = []
    monkeypatch.setattr(freed_memory, "trim", lambda: trimmed.append(1))
    gc.disable()
    try:
        left = weakref.ref(Node())
        freed_memory.note_answered(request_)
        freed_memory.give_back()
        freed_memory.give_back()
        assert ((left() is None), len(trimmed)) == (is_large, is_large)
    finally:
        gc.enable()


def test_giving_back_what_is_not_held_does_no_harm():
    freed_memory.trim()


KEPT = """
import gc
from wrapper.serving.freed_memory import keep_for_good

gc.disable()
was_kept, kept = gc.get_freeze_count(), []
kept.append(kept)
keep_for_good()
print(gc.isenabled(), gc.get_freeze_count() > was_kept, any(each is kept for each in gc.get_objects()))
"""


def test_what_is_kept_is_left_out_of_the_collections_that_go_on():
    told = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.split() == ["True", "True", "False"]


IN_THREADS = """
import ctypes, threading
from wrapper.serving.freed_memory import bound_arenas

if "bound_arenas" in COMMAND:
    bound_arenas()
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
all_there = threading.Barrier(8)

def take():
    all_there.wait()
    small, large = library.malloc(1000), library.malloc(2_000_000)
    all_there.wait()
    library.free(small)
    library.free(large)

threads = [threading.Thread(target=take) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_stats()
"""


def _arenas(command: str) -> int:
    script = IN_THREADS.replace("COMMAND", repr(command))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stderr.count("Arena ")


@pytest.mark.skipif(freed_memory._c_function("malloc_stats") is None, reason="there is no glibc")
def test_threads_share_few_arenas():
    assert _arenas("bound_arenas") <= freed_memory.ARENAS < _arenas("as it is")
