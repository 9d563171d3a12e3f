"""What gunicorn's configuration sets for the workers."""

from __future__ import annotations

import os
import subprocess
import sys

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


def test_the_numeric_library_of_a_worker_has_one_thread(tmp_path):
    """More would wait for each other, spinning: a hundred simultaneous questions took three times as long."""
    environ = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    threads = subprocess.run(
        [sys.executable, "-c", NUMERIC_WORK],
        env={**environ, "RAG_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert threads.stdout.split() == ["1"]
