"""Compare what follow-ups find by the topic of their conversation with what the same questions find that stand alone.

    python -m benchmarks.follow_ups [--part all|fitting|held-out]

`passages.yaml` is stored in a service of its own with the built-in model, and `cases.yaml` is asked of `/api/search`,
once by the text that a conversation searches with and once as written to stand alone. *Found* is in the first three.
*Dragged along* is the passage of the earlier subject that comes up after a change of subject and not for the question
alone.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.clients import Connection, request
from interfaces.commands.scratch_service import scratch_service
from registry.topics.topic import searched_text

FOLDER = Path(__file__).parent
FIRST = 3
PASSAGES: dict[str, str] = yaml.safe_load((FOLDER / "passages.yaml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text(encoding="utf-8"))
PARTS = {
    "all": CASES,
    "fitting": [case for case in CASES if "held_out" not in case],
    "held-out": [case for case in CASES if "held_out" in case],
}

Call = Callable[[str, dict[str, Any]], Any]
"""Posts a body to a path of a service and returns the decoded answer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case found: `text` is what was searched for the follow-up."""

    case: dict[str, Any]
    text: str
    by_topic: bool
    alone: bool
    dragged: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, default="all")
    part = PARTS[parser.parse_args().part]
    with tempfile.TemporaryDirectory() as directory, scratch_service(Path(directory)) as service:
        connection = Connection(service.url)
        outcomes = measure(lambda path, body: connection.call(request("POST", path, body)), part)
        connection.close()
    _print(outcomes)


def measure(call: Call, cases: Iterable[dict[str, Any]] = CASES) -> list[Outcome]:
    """Store the passages, in a service that has no other document, and return what the cases find."""
    for name, text in PASSAGES.items():
        call("/api/rag/ingest", {"source": "handbook", "path": name, "title": name, "text": text})

    def found(query: str) -> list[str]:
        return [each["metadata"]["path"] for each in call("/api/search", {"query": query, "limit": FIRST})["results"]]

    outcomes = []
    for case in cases:
        _, text = searched_text([*case["before"], case["says"]])
        by_topic, alone = found(text), found(case["alone"])
        dragged = case.get("not") in by_topic and case["not"] not in alone
        outcomes.append(Outcome(case, text, case["finds"] in by_topic, case["finds"] in alone, dragged))
    return outcomes


def ratio(outcomes: Iterable[Outcome]) -> float:
    """Return how often follow-ups find their passage, as a share of how often the questions alone do."""
    outcomes = list(outcomes)
    return sum(each.by_topic for each in outcomes) / max(1, sum(each.alone for each in outcomes))


def _print(outcomes: list[Outcome]) -> None:
    table = Table("kind", "language", "cases", "follow-up found", "alone found", "ratio", "dragged along")
    groups = sorted({(each.case["kind"], each.case["language"]) for each in outcomes})
    for kind, language in [*groups, ("all", "all")]:
        them = [e for e in outcomes if kind == "all" or (e.case["kind"], e.case["language"]) == (kind, language)]
        counts = [sum(getattr(each, name) for each in them) for name in ("by_topic", "alone", "dragged")]
        table.add_row(kind, language, *map(str, [len(them), *counts[:2], f"{ratio(them):.2f}", counts[2]]))
    console = Console()
    console.print(table)
    for each in outcomes:
        if each.dragged or not each.by_topic:
            why = "dragged along" if each.by_topic else "not found" if each.alone else "not found, nor alone"
            console.print(f"{why}: {each.case['before']} {each.case['says']!r}, searched {each.text!r}", markup=False)


if __name__ == "__main__":
    main()
