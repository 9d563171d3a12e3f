"""The picture of a run: a small chart for each row, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.growth.reading import ADDS, READS

COLUMNS = 6
OURS, THEIRS, CPU = "rag-wrapper", "chroma run", "its processor time"
TARGETS = {"query, no filter, ms": 20.0, "start, s": 10.0}
STYLES = {THEIRS: ("s--", "C1"), CPU: (":", "C0")}
Lines = dict[str, Callable[[dict[str, Any]], float | None]]


def charts_of() -> dict[str, Lines]:
    """Return the charts by title: for each line a function that finds its value among the figures of a size."""
    charts: dict[str, Lines] = {}
    for row, title in {**{read.key: read.title for read in READS}, **ADDS}.items():
        charts[f"{title}, ms"] = {OURS: _median(row, 0), CPU: _cpu(row), THEIRS: _median(row, 1)}
    charts["load, documents/s"] = {
        "stored": _rate("loaded", "load_stored_seconds"),
        "indexed": _rate("loaded", "load_indexed_seconds"),
        THEIRS: _rate("loaded_there", "load_there_seconds"),
    }
    charts["load, CPU ms a document"] = {OURS: _cpu_of_load}
    charts["start, s"] = {"ready": _once("start_ready_seconds"), "first query": _once("start_first_query_seconds")}
    charts["delete of a tenth, s"] = {
        "stored": _once("delete_stored_seconds"),
        "indexed": _once("delete_indexed_seconds"),
    }
    charts["check-up, s"] = {OURS: _once("check_seconds")}
    charts["rebuild, s"] = {OURS: _once("rebuild_seconds")}
    charts["backup, s"] = {OURS: _once("backup_seconds")}
    charts["disk, MB"] = {OURS: lambda found: _disk(found, 0), THEIRS: lambda found: _disk(found, 1)}
    charts["memory (PSS), MB"] = {OURS: lambda found: _memory(found, 0), THEIRS: lambda found: _memory(found, 1)}
    return charts


def plot(figures: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"
    matplotlib.rcParams["font.size"] = 8
    from matplotlib import pyplot
    from matplotlib.ticker import LogFormatter

    charts = charts_of()
    rows = -(-len(charts) // COLUMNS)
    figure, axes = pyplot.subplots(
        rows, COLUMNS, figsize=(2.5 * COLUMNS, 2.1 * rows), sharex=True, layout="constrained"
    )
    sizes = {int(size): found for size, found in figures["sizes"].items()}
    shown: set[str] = set()  # a line is explained in the first chart that has it
    for axis, (title, lines) in zip(axes.flat, charts.items(), strict=False):
        for number, (name, value_of) in enumerate(lines.items()):
            points = [(size, value) for size, found in sorted(sizes.items()) if (value := value_of(found)) is not None]
            if points:
                style, colour = STYLES.get(name, ("o-", "C2" if number else "C0"))
                axis.plot(*zip(*points, strict=True), style, color=colour, label=name, ms=3)
        if title in TARGETS:
            axis.axhline(TARGETS[title], color="grey", linestyle=":", label="target")
        axis.set(xscale="log", yscale="log", title=title)
        low, high = axis.get_ylim()
        if high < 10 * low:  # a chart of less than a decade would show noise as growth
            middle = (low * high) ** 0.5
            axis.set_ylim(middle / 10**0.5, middle * 10**0.5)
        axis.yaxis.set_major_formatter(LogFormatter())
        axis.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.5)))
        axis.grid(alpha=0.3)
        if not shown.issuperset(lines):
            axis.legend(fontsize=6)
            shown |= set(lines)
    for axis in list(axes.flat)[len(charts) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("documents")
    figure.savefig(path, metadata={"Date": None})


def _median(row: str, place: int) -> Callable[[dict[str, Any]], float | None]:
    def value(found: dict[str, Any]) -> float | None:
        medians: list[float] = found["rows"].get(row, {}).get("ms", [])
        return medians[place] if place < len(medians) else None

    return value


def _cpu(row: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda found: found["rows"].get(row, {}).get("cpu_ms")


def _once(key: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda found: found["once"].get(key)


def _rate(number: str, seconds: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda found: found["once"][number] / found["once"][seconds] if found["once"].get(number) else None


def _cpu_of_load(found: dict[str, Any]) -> float | None:
    once = found["once"]
    return 1e3 * float(once["load_indexed_cpu_seconds"]) / once["loaded"] if once["loaded"] else None


def _disk(found: dict[str, Any], place: int) -> float | None:
    disks: list[dict[str, float]] = found.get("disk_mb", [])
    return sum(disks[place].values()) if place < len(disks) else None


def _memory(found: dict[str, Any], place: int) -> float | None:
    processes: list[list[dict[str, Any]]] = found.get("memory_mb", [])
    return sum(each["pss"] for each in processes[place]) if place < len(processes) else None
