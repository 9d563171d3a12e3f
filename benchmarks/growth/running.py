"""A run of the growth benchmark: load to a size, measure everything there, go on to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.clients import do_together
from benchmarks.growth import reading, upkeep
from benchmarks.growth.documents import GrowingCorpus
from benchmarks.growth.upkeep import Once, OurService
from benchmarks.peer import ChromaSide, Side, chroma_run

BLOCK, CLIENTS = 8_000, 4
MOST_WAITING = 80_000
"""The documents that may wait for the index when a block is begun. The service refuses writes beyond 100,000."""
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: `directory` is kept by those who want to go on later; `peer_up_to` and `rebuild_up_to` are sizes."""

    sizes: Sequence[int]
    dimension: int
    records: str
    peer_up_to: int
    rebuild_up_to: int
    batch: int
    directory: Path


class Growth:
    """Both sides in a directory. A run goes on after the last size that `figures` have of an earlier one."""

    def __init__(self, plan: Plan, figures: Figures, save: Callable[[], object]) -> None:
        self._plan, self.figures, self._save = plan, figures, save
        self._corpus = GrowingCorpus(max(plan.sizes) + reading.EXTRA, plan.dimension, reading.QUERIES)
        for name in ("ours", "theirs"):
            (plan.directory / name).mkdir(exist_ok=True)
        self._ours = OurService(plan.directory / "ours", plan.records)
        self._theirs: ChromaSide | None = None

    def run(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._ours.stop)
            self._ours.start()
            if not self.figures["loaded"]:
                self._ours.side.create()
            for size in self._plan.sizes:
                if self.figures["sizes"].get(str(size), {}).get("is_done"):
                    continue
                with ExitStack() as peer:
                    self._start_peer(size, peer)
                    self._at(size)

    def _start_peer(self, size: int, peer: ExitStack) -> None:
        self._theirs = None
        if size <= self._plan.peer_up_to:
            directory = self._plan.directory / "theirs"
            self._theirs = ChromaSide(peer.enter_context(chroma_run(directory)), directory)
            self._theirs.create()

    @property
    def _sides(self) -> list[Side]:
        return [self._ours.side, *([self._theirs] if self._theirs else [])]

    def _at(self, size: int) -> None:
        found: Figures = {"is_done": False, "load": report.load(), "rows": {}, "once": {}}
        once: Once = found["once"]
        self._load(size, once)
        self.figures["sizes"][str(size)] = found
        upkeep.hold(self._ours, self._corpus, once)
        upkeep.rest(self._ours, once)
        for read in reading.READS:
            sides = self._sides if read.peer else self._sides[:1]
            found["rows"][read.key] = reading.measure(sides, read.key, size, self._corpus)
            _tell(size, read.title, found["rows"][read.key])
            self._save()
        for row in ("unfiltered", "half"):
            found["rows"][row]["recall"] = reading.recall(self._ours.side, row, size, self._corpus)
        found["rows"] |= reading.measure_adds(self._sides, self._corpus)
        for key, title in reading.ADDS.items():
            _tell(size, title, found["rows"][key])
        found["memory_mb"] = [upkeep.memory_mb(side.directory) for side in self._sides]
        self._ours.settle()
        found["disk_mb"] = [upkeep.disk_mb(side.directory) for side in self._sides]
        self._save()
        steps: list[Callable[[], object]] = [
            lambda: upkeep.check(self._ours, once),
            lambda: upkeep.restart(self._ours, self._corpus, once),
            lambda: upkeep.backup(self._ours, once),
            lambda: upkeep.delete_and_add(self._ours, self._corpus, size, self._add_ours, once),
        ]
        if size <= self._plan.rebuild_up_to:
            steps.append(lambda: upkeep.rebuild(self._ours, once))
        for step in steps:
            before = set(once)
            step()
            self._save()
            for key in once.keys() - before:
                print(f"{size:>9,} documents, {key}: {once[key]:.3f}", flush=True)
        found["is_done"] = True
        self._save()

    def _load(self, size: int, once: Once) -> None:
        """Add to ours what is missing up to a size, then to theirs, and note what each took."""
        before = self.figures["loaded"]
        if before and self._ours.count() < before:
            # An earlier run was broken off while a tenth was deleted.
            share = upkeep.share_deleted(before)
            self._add_ours(self._corpus.in_share(share, before))
        once["loaded"] = size - before
        with self._ours.timed(once, "load_indexed"):
            started = time.perf_counter()
            for start in range(before, size, BLOCK):
                part = range(start, min(start + BLOCK, size))
                self._ours.settle(MOST_WAITING // self._plan.batch)
                self._add_ours(part)
                self.figures["loaded"] = part.stop
                self._save()
                print(f"{part.stop:>9,} documents stored, {time.perf_counter() - started:.0f} s", flush=True)
            once["load_stored_seconds"] = time.perf_counter() - started
            self._ours.settle()
        print(f"{size:>9,} documents loaded: {once}", flush=True)
        if self._theirs:
            loaded = self.figures["loaded_there"]
            started = time.perf_counter()
            for start in range(loaded, size, BLOCK):
                self._add(self._theirs, range(start, min(start + BLOCK, size)))
            once["loaded_there"] = size - loaded
            once["load_there_seconds"] = time.perf_counter() - started
            self.figures["loaded_there"] = size
            self._save()

    def _add_ours(self, documents: Sequence[int]) -> float:
        return sum(
            self._add(self._ours.side, documents[start : start + BLOCK]) for start in range(0, len(documents), BLOCK)
        )

    def _add(self, side: Side, documents: Sequence[int]) -> float:
        """Add documents by some clients at a time, and return the seconds from the first request to the last answer."""
        batch = self._plan.batch
        works = [
            side.add(self._corpus, documents[start : start + batch], wait="commit")
            for start in range(0, len(documents), batch)
        ]
        by_client = [works[client::CLIENTS] for client in range(min(CLIENTS, len(works)))]
        return do_together(side.url, by_client).elapsed_seconds


def _tell(size: int, title: str, figures: Figures) -> None:
    medians = " : ".join(f"{each:.2f}" for each in figures["ms"])
    plans = ", ".join(figures.get("plans", ()))
    print(f"{size:>9,} documents, {title}: {medians} ms {plans}", flush=True)
