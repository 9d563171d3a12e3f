"""Judgements of search results, and measurements of the search by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.errors import ConflictError, InvalidInputError, NotFoundError

IRRELEVANT, RELEVANT = GRADES = (0, 1)
RUNNING, DONE, FAILED, CANCELLED = BENCH_STATUSES = ("running", "done", "failed", "cancelled")
MAX_JUDGEMENTS = 5_000
"""The most judgements of one owner."""
MAX_QUESTIONS = 500
"""The most questions of one measurement, the latest ones."""
MAX_GIVEN_QUESTIONS = 1_000
"""The most questions of a measurement with a query set that is sent along."""
MAX_GIVEN_CHARACTERS = 4 << 20
"""The most characters of each file of a query set that is sent along: read, they take ten times as much memory."""
MAX_BENCHES = 50
"""The measurements of one owner that are kept."""


class JudgementNotFoundError(NotFoundError):
    code = "judgement_not_found"

    def __init__(self, judgement_id: str) -> None:
        super().__init__(f"Judgement '{judgement_id}' not found", id=judgement_id)


class TooManyJudgementsError(ConflictError):
    code = "too_many_judgements"

    def __init__(self) -> None:
        super().__init__(
            f"You have {MAX_JUDGEMENTS} judgements: delete some before you add others", limit=MAX_JUDGEMENTS
        )


class NothingJudgedError(ConflictError):
    """No question has a relevant document, so there is nothing to measure."""

    code = "nothing_judged"

    def __init__(self, collection: str) -> None:
        super().__init__(f"No question has a document of '{collection}' that was judged relevant", field="collection")


class InvalidQuerySetError(InvalidInputError):
    """A file of a query set is wrong."""

    code = "invalid_query_set"


class BenchNotFoundError(NotFoundError):
    code = "bench_not_found"

    def __init__(self, bench_id: str) -> None:
        super().__init__(f"Measurement '{bench_id}' not found", id=bench_id)


class BenchRunningError(ConflictError):
    code = "bench_running"

    def __init__(self) -> None:
        super().__init__("Another measurement is running, and two would slow each other down: wait for its end")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a document of a collection is relevant to a question (`grade` 1) or not (0)."""

    question: str
    collection: str
    document_id: str
    grade: int


@dataclass(frozen=True, slots=True)
class QuerySetFiles:
    """The texts of a query set in BEIR's layout whose corpus is a collection: `queries.jsonl` and `qrels/test.tsv`."""

    queries: str
    qrels: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict that is kept. `created_at` is ISO 8601 in UTC with Z."""

    id: str
    verdict: Verdict
    created_at: str
    owner: str


@dataclass(frozen=True, slots=True)
class KnownBench:
    """A measurement: of `searches`, `done` are through. `result` has the figures once it is done; `message` says why it
    failed. Times are milliseconds since the epoch; `told_at_ms` is that of the last progress."""

    id: str
    collection: str
    status: str
    created_at_ms: int
    finished_at_ms: int | None
    questions: int
    searches: int
    done: int
    message: str | None
    owner: str
    told_at_ms: int
    result: Mapping[str, Any] | None = None
