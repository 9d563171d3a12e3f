"""The contract of an embedding provider: texts in, vectors out."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from providers.base import Provider, ProviderContext
from providers.calibration import calibration_of
from providers.models import UnknownModelError, checked_model, one_model
from providers.outbound.refusals import UnusableTextError
from schemas.connections import ModelInfo
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from schemas.records import Vector

MAX_COUNTS = 4_096


class UnusableVectorError(UnusableTextError):
    """The service answered something for `text` that is no vector, or none that fits the others."""

    code = "embedding_answer_unusable"


class EmbeddingProvider(Provider):
    """The models of one provider. Safe to use from several threads; build it after a fork, not before.

    `model` is the provider's name for the model that embeds when a call names none, the field `model` of the
    configuration. Vectors may be compared only when provider and model agree. `max_input_tokens` is where the model
    cuts a text, None when the provider decides. `parallel_calls` is the number of simultaneous calls beyond which
    answers come no sooner.
    """

    kind = "embedding"
    max_input_tokens: int | None = None
    parallel_calls: ClassVar[int] = 4

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None) -> None:
        super().__init__(config, context)
        self.model: str = self.config["model"]
        self._dimension: int | None = self.config.get("dimension")
        self._answered_at: float | None = None
        self._calibration = self.context.calibrations.get(self.model) or calibration_of(self.model)

    @property
    def min_relevance(self) -> float | None:
        """Return the relevance below which a text has nothing to do with a question, as far as `model` can tell.

        None for a model without a calibration.
        """
        return self._calibration.min_relevance

    def relevance(self, cosine: float, words_found: float = 1.0) -> float:
        """Return how likely it is, in [0, 1], that a text has to do with a question.

        `cosine` is that of their vectors by `model`, and `words_found` the share of the question's words that the texts
        found for it have. More of either never gives less. The same relevance means the same for all questions and
        collections and, as far as models are calibrated, for all models. For a model without a calibration it is the
        cosine alone, with 0 for negative ones.
        """
        return self._calibration.relevance(cosine, words_found)

    def can_read(self, question: str) -> bool:
        """Return whether `model` knows enough of the question's words for its vector to mean anything.

        To a model that knows none of their letters, all texts of a script are the same. Where nobody can tell, it can.
        """
        return True

    @property
    def dimension(self) -> int | None:
        """Return how many numbers a vector of `model` has, None until the first `embed` where only an answer can
        tell."""
        return self._dimension

    def embed(self, texts: Sequence[str], *, model: str | None = None) -> Vector:
        """Turn texts into vectors: float32, shape (len(texts), dimension), row i belongs to texts[i], all finite.

        The connection's own model embeds unless another one is named. All texts or none are embedded. No texts give an
        empty matrix without asking the provider.

        Raises InvalidInputError when a text is blank, not a string or not Unicode (`details.index` says which one),
        when the model refuses it, or when the provider has no such model; RefusedTextsError, which has the vectors of
        the others, when it refuses some of several; UnavailableError when there is no usable answer now, as
        UnusableVectorError when it is that for one text; ConfigurationError when there will be none until an operator
        changes something (key, URL, model, missing library), which its sentence names. Errors of a remote service carry
        `details.error_type`, one of the words of a connection test (timeout, authentication, authorization, not_found,
        network, rate_limit, invalid_config, unknown). Vectors of another dimension than before, or than the
        configuration says, raise ConfigurationError, until the connection is opened anew.
        """
        checked = checked_texts(texts)
        if model is None or model == self.model:
            return self._embed_own(checked)
        dimension: int | None = self.config.get("dimension")
        if not checked:
            return np.empty((0, dimension or 0), dtype=np.float32)
        vectors = self._embed_by(checked_model(model), checked)
        self._check_vectors(vectors, checked, dimension)
        return vectors

    def answered(self, within_seconds: float) -> dict[str, Any] | None:
        answered_at = self._answered_at
        age_seconds = math.inf if answered_at is None else time.monotonic() - answered_at
        if age_seconds >= within_seconds:
            return None
        return {"model": self.model, "dimension": self._dimension, "age_seconds": age_seconds}

    def _embed_own(self, texts: list[str]) -> Vector:
        if not texts:
            return np.empty((0, self._dimension or 0), dtype=np.float32)
        try:
            vectors = self._embed(texts)
            self._check_vectors(vectors, texts, self._dimension)
        except InvalidInputError:
            raise  # a faulty text says nothing about the service
        except RagError:
            self._answered_at = None
            raise
        self._dimension = int(vectors.shape[1])
        self._answered_at = time.monotonic()
        return vectors

    @abstractmethod
    def _embed(self, texts: list[str]) -> Vector:
        """Embed at least one text, all checked already, by the connection's own model."""

    def _embed_by(self, model: str, texts: list[str]) -> Vector:
        """Embed by another model. A provider that has only one leaves this as it is."""
        raise UnknownModelError(self.id, model, self.model)

    def models(self) -> list[ModelInfo]:
        """Return the provider's models for embedding, by id. Raise what `embed` raises."""
        return [one_model(self.model, self.kind, self.max_input_tokens, self.description)]

    def warm_up(self) -> None:
        """Load what the first `embed` would have to load. Raise what `embed` raises."""

    def check(self) -> dict[str, Any]:
        vectors = self.embed(["connection test"])
        return {"model": self.model, "dimension": int(vectors.shape[1])}

    def try_out(self) -> dict[str, Any]:
        return EmbeddingProvider.check(self)

    def _check_vectors(self, vectors: Vector, texts: list[str], dimension: int | None) -> None:
        if vectors.ndim != 2 or vectors.shape[0] != len(texts) or vectors.shape[1] == 0:
            raise self._unusable(f"{vectors.shape} numbers for {len(texts)} texts")
        if dimension is not None and vectors.shape[1] != dimension:
            raise ConfigurationError(
                f"The embedding service '{self.id}' answered vectors of dimension {vectors.shape[1]} where {dimension} "
                "is expected: have it serve the earlier model, or open the connection anew (save it, or restart this "
                "service) and re-embed its collections",
                code="embedding_dimension_differs",
                provider=self.id,
                error_type="invalid_config",
            )
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            raise self._unusable_for(texts[int(is_finite.argmin())], "numbers that are not finite").among(texts)

    def _unusable(self, what: str) -> UnavailableError:
        """Return the error for an answer that arrived but breaks the protocol or the contract."""
        sentence = f"The embedding service '{self.id}' answered {what}"
        return UnavailableError(sentence, code=UnusableVectorError.code, provider=self.id, error_type="unknown")

    def _unusable_for(self, text: str, what: str) -> UnusableVectorError:
        error = self._unusable(what)
        return UnusableVectorError(text, error.message, **error.details)


class SupportsTokens(ABC):
    """An embedding provider that knows its model's tokenizer. Texts are valid Unicode and may be empty."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the whole text, before any cut, with those that the model adds to each
        text."""

    @abstractmethod
    def token_starts(self, text: str) -> list[int]:
        """Return the character at which each token starts, ascending, without the tokens that the model adds."""


class TokenCounts:
    """The token counts of the texts that were tokenized last, by their hashes, so that none is tokenized again only to
    be counted. Safe for use by several threads."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def find(self, text: str) -> int | None:
        return self._counts.get(hash(text))

    def keep(self, text: str, count: int) -> int:
        """Keep a count and return it."""
        if len(self._counts) >= MAX_COUNTS:
            self._counts = {}
        self._counts[hash(text)] = count
        return count


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts. Raises InvalidInputError for those that `EmbeddingProvider.embed` takes from nobody."""
    # A str is a Sequence[str] too: embedding its letters one by one would look like success.
    if isinstance(texts, str):
        raise InvalidInputError("texts must be a list of strings, not one string", field="texts")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"texts[{index}] is not a string", field="texts", index=index)
        if not text.strip():
            raise InvalidInputError(f"texts[{index}] is blank and has no embedding", field="texts", index=index)
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            raise InvalidInputError(f"texts[{index}] is not valid Unicode", field="texts", index=index) from exc
    return list(texts)
