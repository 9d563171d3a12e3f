"""Metrics of the models and of all other services that this one calls, and what callers are charged for. Labels name
providers, never places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import Counter, Histogram, Summary

from providers.embeddings.base import EmbeddingProvider
from providers.outbound.calls import LOST, REFUSED, Call
from retrieval.chunking.tokens import token_counter
from schemas.access.callers import current_or_none
from schemas.observing import spans
from schemas.records import Vector
from wrapper.access.daily_use import DailyUse

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


class EmbeddingMeter:
    """Puts the limit of embedded tokens for a day around calls that embed, for callers who have one.

    Tokens are counted as chunks are: by the model's own tokenizer, or by cl100k_base where the connection has none; a
    text that was tokenized just now is not tokenized again. A call that was let in is counted when it has succeeded, so
    calls at the same time may together go beyond the limit.
    """

    def __init__(self, daily_use: DailyUse) -> None:
        self._daily_use = daily_use

    def __call__(self, connection: EmbeddingProvider, texts: Sequence[str], embed: Callable[[], Vector]) -> Vector:
        """Embed, and count the tokens. Raises TooManyRequestsError when the caller has used up today's."""
        caller = current_or_none()
        limited = None if caller is None or caller.limits.embedded_tokens_per_day is None else caller
        if limited is not None:
            self._daily_use.check_tokens(limited)
        failed = EMBEDDING_ERRORS.labels(connection.id)  # there before the first: a counter grows from 0
        timed = EMBEDDING_SECONDS.labels(connection.id).time()
        with (
            spans.span("embed", provider=connection.id, texts=len(texts)),
            failed.count_exceptions(BaseException),
            timed,
        ):
            vectors = embed()
        counter = token_counter(connection)
        tokens = sum(map(counter.count, texts))
        EMBEDDED_TEXTS.labels(connection.id).inc(len(texts))
        EMBEDDED_TOKENS.labels(connection.id).inc(tokens)
        if limited is not None:
            self._daily_use.count_tokens(limited, tokens)
        return vectors
