"""The two tiers of the tests: which test is in which, in what order they run, and what they may cost.

`make test` runs what is not `slow`, and the slow tests that `tests/budget.toml` names as the proofs of the promises.
`make test-all` runs everything.
"""

import ctypes
import gc
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.costs import (
    TESTS,
    TOLERANCE,
    Budget,
    Ledger,
    Spent,
    children_seconds,
    collecting,
    folder_of,
    measured,
    most_mb,
    shared,
    slowness,
)
from tests.support.live import PATIENCE_SECONDS

CASES = pytest.StashKey[Counter[str]]()
"""Folder → collected cases, where a run collects all tests."""
TIERS = pytest.StashKey[dict[str, str]]()
"""File → how many of its tests `make test` runs: `all`, `some` or `none`, where a run collects all tests."""
SPENT = pytest.StashKey[Spent]()
TOGETHER = ("tests/access/", "tests/interfaces/console/browser/")
"""Folders whose files share what takes long to start: one process runs all of them."""
PROCESSES_TIMEOUT_SECONDS = 10 * PATIENCE_SECONDS
"""The limit of a test that starts processes: several waits may each take all of their patience."""
MOST_TOLD = 10
MOST_MB, FIRST_RUN = 900, 1.1
"""The most memory of a process of `make test`, and how much more the first run of a clone takes, which compiles it."""
MORE_MB = 20
"""By how much a process grows before what nothing uses is given back."""
SLOWNESS_SECONDS = 5
"""For how long the speed of the machine is taken to be what it was."""
LIBC = ctypes.CDLL(None)
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # of mallopt(3)


class Gate:
    """Sorts the tests of a run, measures each one, and tells at the end what was spent, and what was not tried."""

    def __init__(self, config: pytest.Config) -> None:
        gc.callbacks.append(collecting)
        gc.disable()  # until all tests are collected: nothing of that is garbage
        self._config = config
        self._enforced = config.getoption("budget")
        self._ledger = Ledger()
        self._begun = time.monotonic()
        self._slowness, self._slowness_until = 1.0, 0.0
        self._faults: list[str] = []
        self._file = ""
        self._resident_mb = 0.0
        self._most_mb = 0.0
        self._skipped: list[tuple[str, str]] = []
        """Files that are skipped as a whole, each with its reason."""
        self._missing: list[str] = []
        """Proofs that `tests/budget.toml` names and that are not there."""
        LIBC.mallopt(M_ARENA_MAX, 2)  # each thread of each app would keep an arena of its own
        LIBC.mallopt(M_MMAP_THRESHOLD, 1 << 18)  # what is larger goes back when it is freed

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Mark the tests and put the files first that take longest: one that starts at the end would keep all other
        processes waiting."""
        budget = Budget.load()
        proofs = {f"tests/{name}" for names in budget.promises.values() for name in names}
        proved = set()
        for item in items:
            if _starts_processes(item) or item.get_closest_marker("executed"):
                item.add_marker("slow")
                item.add_marker(pytest.mark.timeout(PROCESSES_TIMEOUT_SECONDS))
            function = item.nodeid.partition("[")[0]
            if item.nodeid in proofs or (function in proofs and not _starts_processes(item)):
                item.add_marker("proof")
                proved.add(item.nodeid if item.nodeid in proofs else function)
        if {Path(config.rootpath, each) for each in config.args} == {TESTS}:
            self._missing = sorted(proofs - proved)
            config.stash[CASES] = Counter(folder_of(item.path) for item in items)
            config.stash[TIERS] = _tiers(items)
        seconds = {f"tests/{file}": taken for file, taken in budget.longest_files.items()}
        items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0.0))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> LoadFileScheduling:
        return SharedServices(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {})
        self._most_mb = max(self._most_mb, told.get("most_mb", 0.0))
        self._missing = told.get("missing", self._missing)
        self._skipped = told.get("skipped", self._skipped)  # each process has collected all files
        if counted := told.get("counted"):
            self._config.stash[CASES] = Counter(counted)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Any:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Any:
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Any:
        if fixturedef.scope == "function":
            return (yield)
        with shared("fixtures"):
            return (yield)

    def _measure(self, item: pytest.Item) -> Any:
        with measured(self._slowness) as spent:
            try:
                return (yield)
            finally:
                item.stash[SPENT] = spent

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Exempt the tests from garbage collection, which would go through all of them again and again; those that the
        run leaves out go."""
        self._forget_reports()
        gc.enable()
        gc.collect()
        LIBC.malloc_trim(0)
        gc.freeze()

    def _forget_reports(self) -> None:
        """Let go of every report where another process tells them."""
        if hasattr(self._config, "workerinput"):
            self._config.pluginmanager.getplugin("terminalreporter").stats.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Give back what files of tests no longer use: apps are large, and cyclic. The process that only tells what the
        others run has none, and hears of their tests in turn."""
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            if time.monotonic() > self._slowness_until:  # others come and go
                self._slowness, self._slowness_until = slowness(), time.monotonic() + SLOWNESS_SECONDS
            if _resident_mb() > self._resident_mb + MORE_MB:
                gc.collect()
                LIBC.malloc_trim(0)
                self._resident_mb = _resident_mb()
        self._file = file
        try:
            return (yield)
        finally:
            self._forget_reports()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        # An attribute of a report goes along to the process that tells.
        report.told = item.stash[SPENT].told
        report.slow = item.get_closest_marker("slow") is not None
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.append((report.nodeid, str(report.longrepr[2])))  # type: ignore[index]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(self._config, "workerinput") or not hasattr(report, "told"):
            return  # a process that crashed has no more to tell
        case = report.nodeid
        self._ledger.add(case, report.when, tuple(report.told), report.duration, slow=report.slow)
        if report.skipped and not hasattr(report, "wasxfail"):
            self._ledger.skip(case, report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Let a run fail that costs too much or, in continuous integration, leaves out what is not on the list."""
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["counted"] = dict(self._config.stash.get(CASES, {}))
            self._config.workeroutput["most_mb"] = most_mb()
            self._config.workeroutput["missing"] = self._missing
            self._config.workeroutput["skipped"] = self._skipped
            return
        for file, reason in self._skipped:
            self._ledger.skip(file, reason)
        budget = Budget.load()
        self._faults += [f"tests/budget.toml names a test that is not there: {name}" for name in self._missing]
        if self._enforced:
            self._faults += self._ledger.too_dear(TOLERANCE) + self._ledger.folders_over(budget)
            if self._most_mb > MOST_MB * FIRST_RUN:
                self._faults.append(
                    f"a process took {self._most_mb:.0f} MB of memory, at most {MOST_MB * FIRST_RUN:.0f}"
                )
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            unlisted = self._ledger.unlisted_skips(budget)
            self._faults += [f"not tried, and not in `may_skip` of tests/budget.toml: {each}" for each in unlisted]
        if self._faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        chosen = self._config.option.keyword or (self._config.option.markexpr and not self._enforced)
        if CASES in self._config.stash and self._ledger.by_case and not chosen:
            self._ledger.keep("test" if self._enforced else "test-all", self._config.stash[CASES])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was not tried and why, what the run cost, and which tests cost most."""
        write = terminalreporter.write_line
        terminalreporter.section("what it cost")
        for case, seconds in self._ledger.by_case.most_common(MOST_TOLD):
            write(f"{seconds:6.2f} s  {case}")
        taken, memory_mb = time.monotonic() - self._begun, max(self._most_mb, most_mb())
        write(
            f"{children_seconds():.0f} s of processor time, {taken:.0f} s by the clock, at most {memory_mb:.0f} MB in a "
            "process; ten dearest tests above"
        )
        if self._ledger.skipped:
            terminalreporter.section("not tried")
            for reason, cases in sorted(self._ledger.skipped.items()):
                write(f"{len(cases):4d}  {reason}")
        if self._enforced and (dear := self._ledger.too_dear()):
            terminalreporter.section("without the mark `slow`, and dearer than that")
            for each in dear:
                write(each)
        if self._faults:
            terminalreporter.section("over budget, or left out", red=True)
            for fault in self._faults:
                write(fault, red=True)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Say as the last word that a run is red in which each test passed."""
        if self._faults and (terminal := config.pluginmanager.getplugin("terminalreporter")):
            terminal.write_line(f"failed: {len(self._faults)} over budget, or left out (see above)", red=True)


class SharedServices(LoadFileScheduling):
    """Gives the tests of one file to one process, and those of some folders, too."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in TOGETHER:
            if nodeid.startswith(folder):
                return folder
        return super()._split_scope(nodeid)


def _tiers(items: Sequence[pytest.Item]) -> dict[str, str]:
    tiers: dict[str, str] = {}
    for item in items:
        is_run = item.get_closest_marker("slow") is None or item.get_closest_marker("proof") is not None
        file, tier = item.nodeid.partition("::")[0], "all" if is_run else "none"
        tiers[file] = tier if tiers.get(file, tier) == tier else "some"
    return tiers


def _starts_processes(item: pytest.Item) -> bool:
    variant: Sequence[str] = item.callspec.id.split("-") if hasattr(item, "callspec") else ()
    return "processes" in getattr(item, "fixturenames", ()) or "postgresql" in variant


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
