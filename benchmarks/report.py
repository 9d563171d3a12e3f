"""The report of a benchmark: the machine, the table, and where the memory is."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import GROWTH, Result, Row, Samples
from benchmarks.processes import ProcessMemory, proc_value

WIDTH = 400
"""Wider than any table, which takes only the room that it needs. Where that is missing, figures are cut."""
EXPLANATION = """target: of the ratio, and of our recall
ratio: times faster, or times the rate; for growth all documents over a tenth of them, both ours
cpu ms: processor time of all the side's processes for one request, or one document added"""
SIGNS = {True: "pass", False: "MISS", None: ""}


def machine() -> dict[str, str]:
    memory_kib = int(proc_value("/proc/meminfo", "MemTotal").split()[0])
    return {
        "processor": f"{os.cpu_count()} x {proc_value('/proc/cpuinfo', 'model name')}",
        "memory": f"{memory_kib / 2**20:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "chromadb": version("chromadb"),
        "load": load(),
    }


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def conclude(
    machine_now: dict[str, str],
    results: Sequence[Result],
    memory: dict[str, list[ProcessMemory]],
    file: Path | None,
) -> None:
    """Show what was measured, with the load of the machine by now, and write all figures to a file that is given."""
    machine_now["load at the end"] = load()
    show(machine_now, results, memory)
    if file:
        file.write_bytes(orjson.dumps(as_json(machine_now, results, memory), option=orjson.OPT_INDENT_2))


def show(machine_now: dict[str, str], results: Sequence[Result], memory: dict[str, list[ProcessMemory]]) -> None:
    console = Console(width=WIDTH, highlight=False)
    console.print()
    for name, value in machine_now.items():
        console.print(f"{name:>18}: {value}")
    console.print(_results_table(results))
    for moment, processes in memory.items():
        console.print(_memory_table(moment, processes))


def as_json(
    machine_now: dict[str, str], results: Sequence[Result], memory: dict[str, list[ProcessMemory]]
) -> dict[str, Any]:
    return {
        "machine": machine_now,
        "rows": [each.as_json() for each in results],
        "memory_mb": {moment: [asdict(each) for each in processes] for moment, processes in memory.items()},
    }


def _results_table(results: Sequence[Result]) -> Table:
    table = Table(caption=EXPLANATION, caption_justify="left")
    table.add_column("work", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for name in ("ours", "Chroma", "ratio", "by round", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name in ("p95 ms", "cpu ms", "measured", "recall@10"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("our plans", no_wrap=True)
    for result in results:
        ours, theirs, row = result.ours, result.theirs, result.row
        table.add_row(
            row.title,
            row.unit,
            _number(ours.value),
            _number(theirs.value),
            f"{result.ratio:.2f}",
            "{:.2f}-{:.2f}".format(*result.spread),
            _wanted(row),
            SIGNS[result.met],
            f"{_p95(ours)} : {_p95(theirs)}",
            f"{_number(ours.cpu_ms)} : {_number(theirs.cpu_ms)}",
            f"{len(ours.latencies_ms)} : {len(theirs.latencies_ms)}",
            f"{_recall(ours)} : {_recall(theirs)}" if row.recall is not None else "",
            ", ".join(f"{plan} {number}" for plan, number in ours.plans.most_common()),
        )
    return table


def _memory_table(moment: str, processes: Sequence[ProcessMemory]) -> Table:
    table = Table(title=f"Memory {moment}, MB", title_justify="left")
    table.add_column("side")
    table.add_column("process")
    for name in ("RSS", "PSS", "of it heap", "of it mapped files"):
        table.add_column(name, justify="right")
    for side in dict.fromkeys(each.side for each in processes):
        mine = [each for each in processes if each.side == side]
        rows = [(each.process, [each.rss_mb, each.pss_mb, each.anonymous_mb, each.file_mb]) for each in mine]
        if len(rows) > 1:
            rows.append(
                ("together", [sum(column) for column in zip(*(megabytes for _, megabytes in rows), strict=True)])
            )
        for name, megabytes in rows:
            table.add_row(side, name, *(f"{value:,.0f}" for value in megabytes))
        table.add_section()
    return table


def _wanted(row: Row) -> str:
    if row.target is None:
        return ""
    recall = "" if row.recall is None else f", {row.recall:g}"
    return f"{'<=' if row.kind == GROWTH else '>='} {row.target:g}{recall}"


def _p95(samples: Samples) -> str:
    return _number(samples.p95_ms) if samples.latencies_ms else "-"


def _recall(samples: Samples) -> str:
    return "" if samples.recall is None else f"{samples.recall:.4f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
