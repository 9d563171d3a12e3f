"""Answers about judgements and measurements.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Bench(TypedDict):
    id: str
    collection: str
    status: Literal["running", "done", "failed", "cancelled"]
    created_at: str
    finished_at: str | None
    judged: int
    progress: BenchProgress
    message: str | None
    owner: str
    warnings: NotRequired[list[str]]


class BenchProgress(TypedDict):
    searches: int
    done: int


class ForgetJudgementAnswer(TypedDict):
    status: Literal["deleted"]
    id: str
    warnings: NotRequired[list[str]]


class Judgement(TypedDict):
    id: str
    question: str
    collection: str
    document_id: str
    grade: Literal[0, 1]
    created_at: str
    owner: str
    warnings: NotRequired[list[str]]


class ListBenchesAnswer(TypedDict):
    benches: list[Bench]
    warnings: NotRequired[list[str]]


class ListJudgementsAnswer(TypedDict):
    judgements: list[Judgement]
    total: int
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class MeasuredBench(TypedDict):
    id: str
    collection: str
    status: Literal["running", "done", "failed", "cancelled"]
    created_at: str
    finished_at: str | None
    judged: int
    progress: MeasuredBenchProgress
    message: str | None
    owner: str
    runs: list[MeasuredBenchRun]
    questions: list[MeasuredBenchQuestion]
    warnings: NotRequired[list[str]]


class MeasuredBenchProgress(TypedDict):
    searches: int
    done: int


class MeasuredBenchQuestion(TypedDict):
    question: str
    relevant: int
    runs: dict[str, MeasuredBenchQuestionRun]


class MeasuredBenchQuestionRun(TypedDict):
    success_at_3: float
    mrr: float
    ndcg_at_10: float
    recall_at_5: float
    recall_at_10: float
    latency_ms: float


class MeasuredBenchRun(TypedDict):
    name: str
    oracles: list[str]
    fusion: str | None
    success_at_3: float
    mrr: float
    ndcg_at_10: float
    recall_at_5: float
    recall_at_10: float
    latency_ms: MeasuredBenchRunLatencyMs
    failures: int


class MeasuredBenchRunLatencyMs(TypedDict):
    p50: float
    p95: float
    mean: float
