"""Answers about documents that came as lines: streams and imports."""

from __future__ import annotations

from typing import Any

from schemas.errors import RagError
from schemas.storage.outcomes import ImportOutcome, StreamOutcome

Answer = dict[str, Any]


def streamed_answer(name: str, outcome: StreamOutcome) -> Answer:
    answer: Answer = {
        "status": "added",
        "collection": name,
        "count": outcome.count,
        "created": outcome.created,
        "updated": outcome.updated,
        "unchanged": outcome.unchanged,
        "revision": outcome.revision,
        "errors": outcome.errors,
        "errors_total": outcome.errors_total,
    }
    if outcome.ids:
        answer["ids"] = outcome.ids
    return _with_warnings(answer, outcome.warnings)


def imported_answer(name: str, outcome: ImportOutcome) -> Answer:
    answer = {
        "status": "imported",
        "collection": name,
        "count": outcome.count,
        "created": outcome.created,
        "updated": outcome.updated,
        "unchanged": outcome.unchanged,
        "sha256": outcome.sha256,
        "verified": outcome.verified,
        "revision": outcome.revision,
    }
    return _with_warnings(answer, outcome.warnings)


def line_error(line: int, error: RagError) -> Answer:
    """Return an answer's entry for a faulty line, whose place is its `line` and no index."""
    details = {key: value for key, value in error.details.items() if key != "index"}
    return {"line": line, "code": error.code, "message": error.message, "details": details}


def _with_warnings(answer: Answer, warnings: list[str]) -> Answer:
    return {**answer, "warnings": warnings} if warnings else answer
