"""Metrics of the models and of all other services that this one calls. Labels name providers, never places."""

from __future__ import annotations

from prometheus_client import Counter, Histogram, Summary

from providers.outbound.calls import LOST, REFUSED, Call

EMBEDDING_SECONDS = Histogram(
    "rag_embedding_duration_seconds",
    "Time of a call that embeds texts",
    ["provider"],
    buckets=(0.005, 0.02, 0.1, 0.25, 0.5, 1, 5, 30),
)
EMBEDDED_TEXTS = Counter("rag_embedded_texts_total", "Texts embedded", ["provider"])
EMBEDDED_TOKENS = Counter("rag_embedded_tokens_total", "Tokens of the texts embedded", ["provider"])
EMBEDDING_ERRORS = Counter("rag_embedding_errors_total", "Calls that embed and failed", ["provider"])
QUESTIONS = Counter(
    "rag_question_embeddings_total", "Embeddings of questions, by whether one was known (hit) or made (miss)", ["cache"]
)
SERVICE_SECONDS = Summary(
    "rag_service_call_duration_seconds",
    "Time of a call to another service; of an answer that is streamed, until it begins",
    ["service", "provider"],
)
SERVICE_ERRORS = Counter(
    "rag_service_call_errors_total",
    "Calls to another service that were refused, or lost without a whole answer",
    ["service", "provider", "outcome"],
)


def count_call(call: Call) -> None:
    SERVICE_SECONDS.labels(call.service, call.provider).observe(call.seconds)
    for outcome in (REFUSED, LOST):  # both are there before the first failure: a counter grows from 0
        SERVICE_ERRORS.labels(call.service, call.provider, outcome).inc(call.outcome == outcome)


def count_question(made: bool) -> None:
    QUESTIONS.labels("miss" if made else "hit").inc()
