"""Run the story in a service that dies before its step `CRASH_AT`, as if killed: `python dying_process.py DIRECTORY
ENGINE_URL CRASH_AT`.

It prints one line for each write that was answered.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.properties.processes import Process, Steps
from tests.properties.stories import STORY
from wrapper.engine.client import EngineClient


def main(directory: str, engine_url: str, crash_at: str) -> None:
    steps = Steps(int(crash_at), kill=True)
    process = Process(Path(directory), EngineClient(lambda: engine_url), steps)
    process.lead()
    for number, operation in enumerate(STORY):
        operation.run(process.store, key=f"write-{number}")
        print(number, flush=True)
        process.drain()
    process.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
