"""Measure what starting costs: `python -m benchmarks.starting.costs`.

Three things are started over and over: commands that only show their help or a usage error, `rag-wrapper mcp` until it
has answered `initialize` and has listed its tools, and the service on an empty directory until it is ready, with all
its processes. Medians of processor time, user and system, and of wall time are shown; of a machine with other work,
only the former means anything. `--beside` names another checkout, which is measured in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

from benchmarks.processes import cpu_seconds
from benchmarks.report import machine
from interfaces.commands.scratch_service import command, processes_in, scratch_service

HERE = Path(__file__).resolve().parents[2]
ROUNDS = 7
POLL_SECONDS = 0.02
COMMANDS = (
    ("--help",),
    ("serve", "--help"),
    ("mcp", "--help"),
    ("search", "--help"),
    ("load", "--help"),
    ("watch", "--help"),
    ("bench", "--help"),
    ("validate", "--help"),
    ("export", "--help"),
    ("keys", "create", "--help"),
    ("unheard-of",),
    ("load",),
    ("serve", "--config", "/nowhere"),
)
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}

Cost = tuple[float, float]
"""(processor time in seconds, wall time in seconds)"""


@contextmanager
def code_of(checkout: Path) -> Iterator[None]:
    """Have processes that are started in the block run the code of a checkout."""
    with patch.dict(os.environ, {"PYTHONPATH": str(checkout)}):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield


def command_cost(*arguments: str) -> Cost:
    began = time.perf_counter()
    process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, time.perf_counter() - began


def mcp_costs() -> dict[str, Cost]:
    """Return what the first two answers of `rag-wrapper mcp` cost from its start."""
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-starting-") as scratch:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
        environ |= {"RAG_DATA_DIR": f"{scratch}/data", "RAG_LOG_LEVEL": "error"}
        began = time.perf_counter()
        with subprocess.Popen(command("mcp"), env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            told, answers = process.stdin, process.stdout
            assert told is not None
            assert answers is not None

            def cost_until_answered(number: int, method: str, **params: object) -> Cost:
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                told.write(json.dumps(message).encode() + b"\n")
                told.flush()
                if "result" not in json.loads(answers.readline()):
                    raise RuntimeError(f"{method} was refused")
                return cpu_seconds([process.pid]), time.perf_counter() - began

            costs = {"mcp: initialize": cost_until_answered(1, "initialize", **CLIENT)}
            told.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            costs["mcp: tools/list"] = cost_until_answered(2, "tools/list")
            told.close()
        return costs


def service_cost() -> Cost:
    """Return what all processes of a service cost until it is ready."""
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-starting-") as scratch:
        directory = Path(scratch)
        began = time.perf_counter()
        with scratch_service(directory, wait=False) as service:
            while not _is_ready(service.url):
                time.sleep(POLL_SECONDS)
            seconds = time.perf_counter() - began
            return cpu_seconds(processes_in(directory)), seconds


def _is_ready(url: str) -> bool:
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=5)) as connection:
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False


def _only_cost(arguments: tuple[str, ...]) -> dict[str, Cost]:
    return {" ".join(arguments): command_cost(*arguments)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--beside", type=Path, help="another checkout, measured in turns with this one")
    given = options.parse_args()
    checkouts = [*([given.beside.resolve()] if given.beside else []), HERE]
    rows: dict[str, Callable[[], dict[str, Cost]]] = {" ".join(each): partial(_only_cost, each) for each in COMMANDS}
    rows |= {"mcp": mcp_costs, "service": lambda: {"service": service_cost()}}
    found: dict[str, dict[Path, list[Cost]]] = defaultdict(lambda: defaultdict(list))
    for number in range(given.rounds + 1):
        for measure in rows.values():
            for checkout in checkouts:
                with code_of(checkout):
                    costs = measure()
                if number:  # the first round compiles the modules and reads them from the disk
                    for name, cost in costs.items():
                        found[name][checkout].append(cost)
        print(f"round {number} of {given.rounds}", file=sys.stderr)
    print(*(f"{name}: {value}" for name, value in machine().items()), sep="\n")
    for name, by_checkout in found.items():
        medians = [tuple(map(statistics.median, zip(*by_checkout[each], strict=True))) for each in checkouts]
        shown = " | ".join(f"{1000 * cpu:5.0f} ms, wall {1000 * wall:5.0f} ms" for cpu, wall in medians)
        print(f"{name:26} {shown}")


if __name__ == "__main__":
    main()
