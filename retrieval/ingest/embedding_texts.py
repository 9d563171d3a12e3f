"""Embeds texts and, when one of them cannot be embedded while others can, says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from providers.outbound.call_sizes import FAILURES, by_halves
from retrieval.ingest.drafts import named_chunk
from schemas.access.callers import acting_still
from schemas.contracts.jobs import TEXT_FAILED
from schemas.contracts.rule_documents import EmbeddingFailureError
from schemas.errors import InvalidInputError, RagError
from schemas.records import Vector

Embed = Callable[[EmbeddingProvider, list[str]], Vector]


class TextNotEmbeddedError(RagError):
    """The service embeds other texts, but not `text`, for the reason `failure`.

    The sentence calls it `named`, and `place` are the details that say where it stands.
    """

    _code: str | None = None

    def __init__(self, text: str, failure: RagError, named: str | None = None, **place: Any) -> None:
        who = named or named_chunk(text)
        # Where it stood in the call says nothing to whoever gave the document.
        details = {name: each for name, each in failure.details.items() if name not in ("field", "index")}
        sentence = f"{who} cannot be embedded: {failure.message}"
        super().__init__(sentence, code=self._code or failure.code, **details, **place)
        self.text = text
        self.failure = failure


class TextRefusedError(TextNotEmbeddedError, InvalidInputError):
    """The model refuses a text."""


class TextFailedError(TextNotEmbeddedError, EmbeddingFailureError):
    """The service fails at a text."""

    code = _code = TEXT_FAILED


NOT_EMBEDDED = (InvalidInputError, TextFailedError)
"""What is wrong with one document, and says nothing of others."""


def embed_or_name(
    embed: Embed, embedding: EmbeddingProvider, texts: Sequence[str], *, check: Callable[[], None] = lambda: None
) -> Vector:
    """Return a vector for each text. Texts that fail together are asked for by halves (`by_halves`).

    Raises TextRefusedError for the first text that is refused and TextFailedError for the first at which the service
    fails. When the service embeds nothing else either, raises its failure, as ConfigurationError where it refuses. It
    is asked each time after `check` and for who may still act.
    """

    def made(some: list[str]) -> Vector:
        check()
        with acting_still():
            return embed(embedding, some)

    def named(text: str, error: RagError) -> RagError:
        alone = getattr(error, "alone", error)
        return (TextRefusedError if isinstance(alone, InvalidInputError) else TextFailedError)(text, alone)

    try:
        return made(list(texts))
    except FAILURES as failure:
        vectors, _ = by_halves(texts, made, failure, named)
        return np.stack(vectors)
