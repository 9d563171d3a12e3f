"""What a worker does about its memory, and how many threads its numeric library has."""

import gc
import os
import subprocess
import sys
import weakref

import pytest

from tests.support.live import PATIENCE_SECONDS
from wrapper.serving import freed_memory

needs_glibc = pytest.mark.skipif(freed_memory._c_function("malloc_stats") is None, reason="there is no glibc")


def run(script, **environ):
    """Run a script in a process of its own."""
    ours = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True, env={**ours, **environ}
    )
    return done.stdout.split(), done.stderr


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


TRIMMED = """
import ctypes, os
from wrapper.serving.freed_memory import trim

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
blocks = [library.malloc(3_000) for _ in range(30_000)]
for each in blocks[:-1]:
    library.free(each)
held = resident_mb()
trim()
print(held - resident_mb())
"""


@needs_glibc
def test_what_lies_before_something_that_stays_is_given_back():
    (given_back_mb,), _ = run(TRIMMED)
    assert int(given_back_mb) > 50


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
    assert run(KEPT)[0] == ["True", "True", "False"]


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


@needs_glibc
def test_threads_share_few_arenas():
    bound, free = (
        run(IN_THREADS.replace("COMMAND", repr(command)))[1].count("Arena ") for command in ("bound_arenas", "as it is")
    )
    assert bound <= freed_memory.ARENAS < free


NUMERIC_WORK = """
import os
import sys
import wrapper.serving.gunicorn_config
import interfaces.compose
import numpy
matrix = numpy.ones((2_000, 2_000), dtype="f4")
matrix @ matrix
print(len(os.listdir("/proc/self/task")), file=sys.__stdout__)  # what is printed otherwise is a line of the log
"""


@pytest.mark.slow
def test_the_numeric_library_of_a_worker_has_one_thread(tmp_path):
    """More would wait for each other, spinning: a hundred simultaneous questions took three times as long."""
    assert run(NUMERIC_WORK, RAG_DATA_DIR=str(tmp_path))[0] == ["1"]
