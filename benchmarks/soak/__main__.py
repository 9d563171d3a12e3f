"""Load a service for hours and see what grows: `python -m benchmarks.soak [--hours 8] [--svg docs/soak.svg]`.

Clients write, read, search, upload and chat at the same time while parts of the service are killed one after another.
What is stored stays the same in size, so memory, open files, threads and the disk must end where they were. Ends with 1
when one of them has grown, when something acknowledged is not there at the end, or when a request failed that no kill
explains.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.report import machine
from benchmarks.soak.chat_model import chat_model
from benchmarks.soak.load import CLIENTS, Counts, Load, Outage
from benchmarks.soak.running import RunningService
from benchmarks.soak.sampling import FIGURES, Sample, growth, sample
from benchmarks.soak.svg import plot

HOURS = float(os.environ.get("RAG_SOAK_HOURS", "0.5"))
SAMPLES = 400
SETTLING_SHARE = 0.25
"""The share of the run after which figures count: caches fill first."""
KILLS = ("worker", "engine", "service")
KILLS_PER_RUN = 24
SEED = 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=HOURS, help=f"how long it takes  [default: {HOURS}]")
    parser.add_argument("--svg", type=Path, help="draw the figures into this file")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    arguments = parser.parse_args()
    seconds = arguments.hours * 3600
    with (
        tempfile.TemporaryDirectory(prefix="rag-wrapper-soak-") as directory,
        chat_model() as chat_url,
        RunningService(Path(directory), chat_url) as service,
    ):
        samples, counts, lost = _soak(service, seconds)
    found = growth(samples, SETTLING_SHARE)
    _print(arguments.hours, samples, counts, found, lost)
    if arguments.svg:
        arguments.svg.write_text(plot(samples))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "samples": [vars(each) for each in samples]}))
    return 1 if lost or counts.failed or any(figure.has_grown for figure in found) else 0


def _soak(service: RunningService, seconds: float) -> tuple[list[Sample], Counts, list[str]]:
    outage, counts, ends_at = Outage(), Counts(), time.monotonic() + seconds
    load = Load(service.url, outage, counts, ends_at)
    load.prepare()
    threads = [threading.Thread(target=client, args=(load, number)) for number, client in enumerate(CLIENTS)]
    for thread in threads:
        thread.start()
    samples, began, generator = [], time.monotonic(), random.Random(SEED)
    next_kill = began + seconds / KILLS_PER_RUN
    while (now := time.monotonic()) < ends_at:
        samples.append(sample(service, now - began, counts))
        if now >= next_kill and now < ends_at - seconds / KILLS_PER_RUN / 2:
            next_kill += seconds / KILLS_PER_RUN
            with outage:
                service.kill(generator.choice(KILLS))
                counts.kills += 1
        time.sleep(max(seconds / SAMPLES, 1.0))
    for thread in threads:
        thread.join()
    service.wait_until_healthy()
    return samples, counts, load.lost()


def _print(hours: float, samples: list[Sample], counts: Counts, found: list, lost: list[str]) -> None:
    for name, value in machine().items():
        print(f"{name:>18}: {value}")
    print(f"\n{hours:g} hours, {sum(counts.done.values()):,} requests, {counts.kills} kills, {len(samples)} samples")
    for name, count in sorted(counts.done.items()):
        print(f"{name:>18}: {count:,}")
    print(f"{'during a kill':>18}: {counts.excused:,} failed")
    for figure in found:
        sign = "GREW" if figure.has_grown else "flat"
        print(f"{figure.name:>18}: {figure.before:,.1f} -> {figure.after:,.1f} {FIGURES[figure.field].unit}  {sign}")
    for each in counts.failed[:20]:
        print(f"FAILED {each}")
    for each in lost[:20]:
        print(f"LOST {each}")
    if not samples:
        sys.exit("no samples")


if __name__ == "__main__":
    sys.exit(main())
