"""Embeds texts and, when one of them cannot be embedded while others can, says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from providers.embeddings.base import EmbeddingProvider, UnusableVectorError
from providers.outbound import deadlines
from providers.outbound.refusals import RefusedTextsError
from retrieval.ingest.drafts import named_chunk
from schemas.access.callers import acting_still
from schemas.contracts.jobs import TEXT_FAILED
from schemas.contracts.rule_documents import EmbeddingFailureError
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from schemas.records import Vector

PROBE = "connection test"
"""A text that a service embeds which embeds any."""
PROBE_SECONDS = 20.0
"""How long a call may take that finds out whether the service or a text is at fault."""

Embed = Callable[[EmbeddingProvider, list[str]], Vector]


class TextNotEmbeddedError(RagError):
    """The service embeds other texts, but not `text`, for the reason `failure`; None when no text fails alone.

    The sentence calls it `named`, and `place` are the details that say where it stands.
    """

    def __init__(self, text: str | None, failure: RagError, named: str | None = None, **place: Any) -> None:
        who = named or ("Some chunk of it" if text is None else named_chunk(text))
        # Where it stood in the call says nothing to whoever gave the document.
        details = {name: each for name, each in failure.details.items() if name not in ("field", "index")}
        super().__init__(f"{who} cannot be embedded: {failure.message}", code=self._code(failure), **details, **place)
        self.text = text
        self.failure = failure

    def _code(self, failure: RagError) -> str:
        return failure.code


class TextRefusedError(TextNotEmbeddedError, InvalidInputError):
    """The model refuses a text."""


class TextFailedError(TextNotEmbeddedError, EmbeddingFailureError):
    """The service fails at a text."""

    code = TEXT_FAILED

    def _code(self, failure: RagError) -> str:
        return self.code


NOT_EMBEDDED = (InvalidInputError, TextFailedError)
"""What is wrong with one document, and says nothing of others."""


def embed_or_name(
    embed: Embed,
    embedding: EmbeddingProvider,
    texts: Sequence[str],
    *,
    searches: bool = True,
    check: Callable[[], None] = lambda: None,
) -> Vector:
    """Return a vector for each text.

    Raises TextRefusedError for the first text that is refused and TextFailedError for the first at which the service
    fails; unless it `searches`, that one names no text that the service has not named. When the service embeds nothing
    else either, raises its failure, as ConfigurationError where it refuses. For that it is asked once or twice more,
    and once for each time that the texts can be halved, each time after `check` and for who may still act.
    """

    def made(some: list[str]) -> Vector:
        check()
        with acting_still():
            return embed(embedding, some)

    def fails(some: list[str]) -> bool:
        try:
            with deadlines.within(PROBE_SECONDS):
                made(some)
        except (InvalidInputError, UnavailableError):
            return True
        return False

    def first_failing() -> str | None:
        some = list(texts)
        while len(some) > 1:
            half = some[: len(some) // 2]
            some = half if fails(half) else some[len(half) :]
        return some[0] if fails(some) and not fails([PROBE]) else None

    try:
        return made(list(texts))
    except InvalidInputError as error:
        index = error.details.get("index", 0 if len(texts) == 1 else None)
        if isinstance(error, RefusedTextsError):
            raise TextRefusedError(texts[min(error.refused)], error.refused[min(error.refused)]) from error
        if "status" in error.details and fails([PROBE]):
            raise ConfigurationError(error.message, **error.details) from error
        text = first_failing() if index is None else texts[index]
        if text is None:
            raise
        raise TextRefusedError(text, error) from error
    except UnavailableError as error:
        check()
        # A service that limits its callers is asked no more than it has to be.
        if error.details.get("error_type") == "rate_limit" or fails([PROBE]):
            raise
        if isinstance(error, UnusableVectorError):
            raise TextFailedError(error.text, error.alone) from error
        raise TextFailedError(first_failing() if searches else None, error) from error
