"""What the tests cost: processor time and waiting of each, held against `tests/budget.toml`.

A slow machine, and one whose cores others use as well, is told by a short loop that every process of the tests runs
now and then between two files. Waiting is what is left of a test's time without its processor time and without the
time in which the kernel let it stand in line; it includes the work of processes that the test waits for.
"""

from __future__ import annotations

import json
import os
import resource
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
BUDGET = TESTS / "budget.toml"
KEPT = TESTS.parent / ".pytest_cache" / "costs"
REFERENCE_SECONDS = 0.0072
"""Processor time of `_loop` on the machine whose seconds are written in the budget: two virtual cores of an Intel Xeon."""
CASE_SECONDS = 0.5
"""The most processor time of a test without the mark `slow`, in seconds of the reference machine."""
FUNCTION_SECONDS = 5.0
"""The same for all cases of one function."""
WAITING_SECONDS = 1.0
"""The longest that such a test may wait, for processes that it started, too."""
MOST_CROWDED = 2.0
"""What a test waits for may have to stand in line: so many times more is taken for that at most."""
TOLERANCE = 3
"""How many times more than these a test may cost before the run fails: what a run measures of one test differs by its
neighbours, by what it imports first, and by how its processes are scheduled."""
LONGEST_FILES = 40
GRACE, GRACE_SECONDS = 2, 5
"""How much more than its budget a folder may take before the run fails: the first tests of each process pay for what is
imported late, and the first run of a clone for compiling it."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The content of `tests/budget.toml`."""

    folders: dict[str, dict[str, float]]
    """Folder → `lines`, `cases` and, in `make test`, `seconds` of processor time."""
    promises: dict[str, list[str]]
    """Promise → the slow tests that `make test` runs to prove it from end to end."""
    may_skip: tuple[str, ...]
    """How the reasons begin for which a test may be skipped in continuous integration, too. `RAG_TESTS_WITHOUT` has the
    packages that could not be had there."""
    longest_files: dict[str, float]
    """File → seconds of the files that take longest, which start first."""

    @classmethod
    @cache
    def load(cls) -> Budget:
        read = tomllib.loads(BUDGET.read_text())
        absent = dict.fromkeys(os.environ.get("RAG_TESTS_WITHOUT", "").split())
        if unknown := absent.keys() - read["may_skip_without"].keys():
            raise ValueError(f"RAG_TESTS_WITHOUT names what tests/budget.toml does not: {', '.join(sorted(unknown))}")
        may_skip = (*read["may_skip"], *(read["may_skip_without"][package] for package in absent))
        return cls(read["folders"], read["promises"], may_skip, read["longest_files"])


@dataclass(slots=True)
class Spent:
    """What one phase of a test cost, and how slow the machine was then."""

    cpu_seconds: float = 0.0
    shared_seconds: float = 0.0
    """Processor time of fixtures that other tests use, too, and of processes whose end was waited for meanwhile, whoever
    had started them."""
    waiting_seconds: float = 0.0
    slowness: float = 1.0

    @property
    def told(self) -> tuple[float, float, float]:
        """Processor time of the test and of what it shares, and waiting in seconds of the reference machine, with nothing
        else running."""
        crowd = min(MOST_CROWDED, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
        return self.cpu_seconds / self.slowness, self.shared_seconds / self.slowness, self.waiting_seconds / crowd


@contextmanager
def measured(usual_slowness: float) -> Iterator[Spent]:
    """Give what the block costs; it is known at the end of the block. A block that seems too dear is told by how slow
    the machine is at that very moment."""
    spent = Spent()
    before, wall, late, cpu, children = _shared.copy(), time.monotonic(), _run_delay(), time.process_time(), _ended()
    try:
        yield spent
    finally:
        all_seconds = time.process_time() - cpu
        waited = time.monotonic() - wall - all_seconds - (_run_delay() - late)
        shared = _shared - before
        spent.cpu_seconds = all_seconds - shared["fixtures"] - shared["all"]
        spent.waiting_seconds = max(0.0, waited - shared["waiting"])
        spent.shared_seconds = shared["fixtures"] + _ended() - children
        dear = spent.cpu_seconds > CASE_SECONDS * usual_slowness
        spent.slowness = max(usual_slowness, slowness()) if dear else usual_slowness


_shared: Counter[str] = Counter()
"""Seconds of this process so far that are held against no test: of `fixtures`, for `all`, and `waiting` in either."""
_collection = {"begun": 0.0}
"""Processor time of this process when the last collection of garbage began."""


@contextmanager
def shared(by: str) -> Iterator[None]:
    """Do in the block what the first test that needs it does for others, too: for those of its folder, if it is one of
    `fixtures`, or for `all`. Such blocks may be within each other."""
    before, wall, late, cpu = _shared.copy(), time.monotonic(), _run_delay(), time.process_time()
    try:
        yield
    finally:
        all_seconds = time.process_time() - cpu
        inner = _shared - before
        _shared[by] += all_seconds - inner["fixtures"] - inner["all"]
        waited = time.monotonic() - wall - all_seconds - (_run_delay() - late)
        _shared["waiting"] = before["waiting"] + max(0.0, waited)


def collecting(phase: str, info: dict[str, int]) -> None:
    """Hold a collection of garbage, whose callback this is, against nobody: it goes through what all tests have left."""
    if phase == "start":
        _collection["begun"] = time.process_time()
    else:  # only then: a test may begin or end while a thread collects
        _shared["all"] += time.process_time() - _collection["begun"]


def _ended() -> float:
    """Return the processor time of the processes whose end was waited for."""
    return sum(os.times()[2:4])


def slowness() -> float:
    """Return how many times slower than the reference machine this one is now."""
    return min(_loop() for _ in range(3)) / REFERENCE_SECONDS


@dataclass(slots=True)
class Ledger:
    """Adds up what the tests of a run cost, and says what was too much."""

    by_case: Counter[str] = field(default_factory=Counter)
    calls: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Case without the mark `slow` → processor time and waiting of the test and of the fixtures that are its own."""
    by_folder: Counter[str] = field(default_factory=Counter)
    by_file: Counter[str] = field(default_factory=Counter)
    """File → seconds by the clock."""
    skipped: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Reason → the tests that were skipped for it."""

    def add(self, case: str, when: str, told: tuple[float, float, float], clock_seconds: float, *, slow: bool) -> None:
        own_seconds, shared_seconds, waiting_seconds = told
        # What is shared ends with the last test that used it, whose own cost it is not.
        self.by_case[case] += own_seconds + (shared_seconds if when == "call" else 0)
        self.by_folder[folder_of(case.partition("::")[0])] += own_seconds + shared_seconds
        self.by_file[case.partition("::")[0].removeprefix("tests/")] += clock_seconds
        if when != "teardown" and not slow:
            before = self.calls.get(case, (0.0, 0.0))
            self.calls[case] = before[0] + own_seconds, before[1] + waiting_seconds

    def skip(self, case: str, told: object) -> None:
        reason = told[2] if isinstance(told, tuple | list) else str(told)
        self.skipped[reason.removeprefix("Skipped: ")].append(case)

    def too_dear(self, times: float = 1) -> list[str]:
        """Return a line for each test without the mark `slow` that costs more than so many times what such tests may."""
        by_function: Counter[str] = Counter()
        found = []
        for case, (cpu_seconds, waiting_seconds) in self.calls.items():
            by_function[case.partition("[")[0]] += cpu_seconds
            if cpu_seconds > CASE_SECONDS * times:
                found.append(f"{case}: {cpu_seconds:.2f} s of processor time, at most {CASE_SECONDS}")
            if waiting_seconds > WAITING_SECONDS * times:
                found.append(f"{case}: waits for {waiting_seconds:.2f} s, at most {WAITING_SECONDS}")
        for name, cpu_seconds in by_function.items():
            if cpu_seconds > FUNCTION_SECONDS * times:
                found.append(f"{name}: {cpu_seconds:.1f} s in all its cases, at most {FUNCTION_SECONDS}")
        return found

    def folders_over(self, budget: Budget) -> list[str]:
        """Return a line for each folder whose tests cost much more than the budget has for them."""
        found = []
        for folder, seconds in sorted(self.by_folder.items()):
            most = budget.folders.get(folder, {}).get("seconds", 0) * GRACE + GRACE_SECONDS
            if seconds > most:
                found.append(f"tests/{folder}: {seconds:.0f} s of processor time, at most {most} by tests/budget.toml")
        return found

    def keep(self, name: str, counted: Counter[str]) -> None:
        """Write what the run cost, for `python -m tests.support.costs`."""
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{name}.json").write_text(
            json.dumps({"counted": counted, "folders": self.by_folder, "files": self.by_file})
        )

    def unlisted_skips(self, budget: Budget) -> list[str]:
        """Return the reasons of skipped tests that continuous integration does not let pass."""
        return [reason for reason in self.skipped if not reason.startswith(budget.may_skip)]


def folder_of(path: str | Path) -> str:
    """Return the folder of the budget that a path belongs to, one below the project if it is relative; `.` for what lies
    in tests/ itself, or elsewhere."""
    path = TESTS.parent / path
    inner = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inner[0] if len(inner) > 1 else "."


def lines_by_folder() -> Counter[str]:
    """Return the lines of Python in each folder of tests/."""
    found: Counter[str] = Counter()
    for file in TESTS.rglob("*.py"):
        found[folder_of(file)] += len(file.read_bytes().splitlines())
    return found


def children_seconds() -> float:
    """Return the processor time of this process and of all that it waited for, processes of those included."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def most_mb() -> float:
    """Return the most memory that this process has had at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _loop() -> float:
    begun = time.process_time()
    kept: dict[int, str] = {}
    total = 0
    for number in range(30_000):
        kept[number % 1000] = str(number)
        total += len(kept[number % 1000])
    return time.process_time() - begun


def _run_delay() -> float:
    """Return for how long the kernel has let this process wait for a core."""
    return int(os.pread(_schedstat(), 100, 0).split()[1]) / 1e9 if _schedstat() else 0.0


@cache
def _schedstat() -> int:
    """Return the open file of the kernel's figures, which is read twice for each phase of a test, or 0."""
    try:
        return os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0


def write_budget(kept: Path) -> None:
    """Write the numbers of `tests/budget.toml` anew: lines as they are now, cases and seconds as the last `make test` kept
    them in the folder `kept`, the longest files as the last `make test-all` did, if there was one."""
    head, _, rest = BUDGET.read_text().partition("[folders]")
    lines, gate = lines_by_folder(), json.loads((kept / "test.json").read_text())
    rows = [
        f'"{folder}" = {{ lines = {lines[folder]}, cases = {gate["counted"].get(folder, 0)}, '
        f"seconds = {gate['folders'].get(folder, 0.0):.0f} }}"
        for folder in sorted(lines)
    ]
    longest = "[longest_files]" + rest.partition("[longest_files]")[2]
    if (kept / "test-all.json").exists():
        files = Counter(json.loads((kept / "test-all.json").read_text())["files"]).most_common(LONGEST_FILES)
        longest = "\n".join(["[longest_files]", *(f'"{file}" = {seconds:.0f}' for file, seconds in files), ""])
    BUDGET.write_text("\n".join([f"{head}[folders]", *rows, "", longest]))


if __name__ == "__main__":
    if not (KEPT / "test.json").exists():
        raise SystemExit("There is no `make test` yet whose costs could be written.")
    write_budget(KEPT)
