"""What has to be so in a process of the service before it imports much."""

import gc
import os


def begin() -> None:
    """Let NumPy work with one thread, and look for no garbage until `freed_memory.keep_for_good`."""
    one_numeric_thread()
    # Hardly anything that an import makes is garbage; to look for it took a seventh of the time.
    gc.disable()


def one_numeric_thread() -> None:
    """Have NumPy, which must not be imported yet, work in the thread that asks, unless the environment says otherwise.

    The parallel work is that of requests. Threads of the numeric library would only wait for each other: sixteen
    simultaneous queries took twenty times as long (`docs/performance.md`).
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
