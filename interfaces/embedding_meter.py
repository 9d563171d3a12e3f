"""Charges callers for the tokens that are embedded for them, and counts what is embedded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from interfaces import model_metrics
from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking.tokens import token_counter
from schemas.access.callers import current_or_none
from schemas.observing import spans
from schemas.records import Vector
from wrapper.access.daily_use import DailyUse


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
        with spans.span("embed", provider=connection.id, texts=len(texts)):
            vectors = _timed(connection.id, embed)
        counter = token_counter(connection)
        tokens = sum(map(counter.count, texts))
        model_metrics.EMBEDDED_TEXTS.labels(connection.id).inc(len(texts))
        model_metrics.EMBEDDED_TOKENS.labels(connection.id).inc(tokens)
        if limited is not None:
            self._daily_use.count_tokens(limited, tokens)
        return vectors


def _timed(provider: str, embed: Callable[[], Vector]) -> Vector:
    began = time.perf_counter()
    failed = model_metrics.EMBEDDING_ERRORS.labels(provider)  # there before the first: a counter grows from 0
    try:
        return embed()
    except BaseException:
        failed.inc()
        raise
    finally:
        model_metrics.EMBEDDING_SECONDS.labels(provider).observe(time.perf_counter() - began)
