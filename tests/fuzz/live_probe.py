"""Ask the service on a port for `/live` until the input ends, and print for each line of input how long slow answers
took.

The probe is a process of its own, because no other thread reads a clock while the test writes a megabyte of JSON.
"""

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

PAUSE_SECONDS = 0.05
SLOW_SECONDS = 0.1
ANSWER_SECONDS = 120.0


class Probe:
    """The process as its parent sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def slow_seconds(self) -> list[float]:
        """Return the seconds of the answers that have been too slow since the last call; a missing answer counts with
        the longest possible time."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def probing(port: int) -> Iterator[Probe]:
    command = [sys.executable, "-m", "tests.fuzz.live_probe", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Probe(process)


def main(port: int) -> None:
    slow_seconds = []
    while True:
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(json.dumps(slow_seconds), flush=True)
            slow_seconds = []
        seconds = _seconds_of_an_answer(port)
        if seconds > SLOW_SECONDS:
            slow_seconds.append(seconds)


def _seconds_of_an_answer(port: int) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    began = time.perf_counter()
    try:
        connection.request("GET", "/live")
        connection.getresponse().read()
    except (OSError, HTTPException):
        return ANSWER_SECONDS
    finally:
        connection.close()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(int(sys.argv[1]))
