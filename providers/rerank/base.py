"""The contract of a reranking provider: a question and texts in, scores out."""

from __future__ import annotations

import math
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from providers.base import Provider, ProviderContext
from providers.outbound import deadlines
from providers.outbound.answers import UNUSABLE, number, whole
from providers.outbound.call_sizes import Calls, CallSize, by_halves, failure_for
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.number_dialect import NumberDialect
from providers.outbound.optional_fields import OptionalFields
from providers.outbound.refusals import RefusedRequestError, RefusedTextsError, UnusableTextError
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError

MAX_TEXTS = 1000
"""The most texts of one call; Cohere advises against more."""
MAX_BYTES = 1 << 30
_OF_QUERY = re.compile(r"\b(query|question)\b", re.IGNORECASE)
_OF_TEXTS = re.compile(r"document|text|passage|batch|pair|item|candidate|inputs\b|result", re.IGNORECASE)
TRIED_TEXTS = 100
"""The texts of the call by which a connection is tried out: as many as a search sends."""


class UnusableScoreError(UnusableTextError):
    """The service answered no score for `text`, or fails for it."""

    code = UNUSABLE


class RerankProvider(Provider):
    """One reranking model, usable by several threads.

    `model` is its name, "" where the server has only one and is not told. A failed request is sent once more only:
    somebody waits for the order.
    """

    kind = "rerank"
    limits: ClassVar[Mapping[str, Any]] = {"max_texts": MAX_TEXTS}
    retry: ClassVar[RetryPolicy] = RetryPolicy(attempts=2)
    _calls: Calls | None = None

    def __init__(
        self, config: Mapping[str, Any], context: ProviderContext | None = None, *, retry: RetryPolicy | None = None
    ) -> None:
        super().__init__(config, context)
        self.model: str = self.config.get("model", "")
        self._answered_at: float | None = None
        self._dialect = NumberDialect("reranking service", self.id)
        self._service = JsonClient(
            self.config["url"],
            self._dialect,
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry or self.retry,
        )
        self._fields = OptionalFields(self._service)
        self._calls = Calls(
            (self.kind, self.id, self.config["url"], self.model),
            CallSize(self.config.get("batch_size", MAX_TEXTS), MAX_BYTES),
            self.context.call_sizes,
            anew=self.context.is_trial,
        )

    def close(self) -> None:
        self._service.close()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a finite score for each text, in the order of the texts; the greater, the better it answers.

        Scores of one question compare with each other, not with those of other questions or models. They are asked for
        in one request, in several where the service takes fewer texts. Without texts nothing is asked.

        Raises InvalidInputError when the query or a text is blank or not Unicode (`details.index` says which), when
        there are more than 1,000 texts, or when the model refuses them; RefusedTextsError, which has the scores of the
        others, when it refuses some, and where few calls are to be made (`deadlines.few_calls`) also when it fails for
        some; UnavailableError when there is no usable answer now, as UnusableScoreError when it is that for one text;
        ConfigurationError when there will be none until an operator changes something. `details.error_type` is as in
        embedding providers.
        """
        _check(query, texts)
        if not texts:
            return []
        try:
            scores = self._rerank(query, list(texts))
        except InvalidInputError:
            raise  # a faulty text says nothing about the service
        except RagError:
            self._answered_at = None
            raise
        self._answered_at = time.monotonic()
        return scores

    def answered(self, within_seconds: float) -> dict[str, Any] | None:
        age_seconds = math.inf if self._answered_at is None else time.monotonic() - self._answered_at
        return {"model": self.model, "age_seconds": age_seconds} if age_seconds < within_seconds else None

    def check(self) -> dict[str, Any]:
        self.rerank("connection test", ["a text", "another text"])
        return {"model": self.model}

    def try_out(self) -> dict[str, Any]:
        self.rerank("connection test", [f"text {number}" for number in range(1, TRIED_TEXTS + 1)])
        return {"model": self.model, **(self._calls.told() if self._calls else {})}

    @abstractmethod
    def _rerank(self, query: str, texts: list[str]) -> list[float]:
        """Score at least one text, all checked already."""

    def _in_calls(self, texts: list[str], call: Callable[[list[str]], list[float]]) -> list[float]:
        """Return the scores that `call` returns for the texts, called for as many as the service takes. Raises
        RefusedTextsError and UnusableScoreError."""
        assert self._calls is not None

        def ask(some: list[str]) -> list[float]:
            try:
                return call(some)
            except RefusedRequestError as error:
                reason = str(error.details.get("reason", ""))
                if _OF_QUERY.search(reason) and not _OF_TEXTS.search(reason):  # whatever the texts
                    raise InvalidInputError(error.message, **{**error.details, "field": "query"}) from error
                raise

        try:
            answers = self._calls.ask(texts, ask)
        except UnusableScoreError as error:
            raise error.among(texts) from error
        except (UnavailableError, ConfigurationError) as failure:
            if deadlines.is_brief():
                raise
            named = partial(failure_for, UnusableScoreError, texts)
            scores, passed = by_halves(texts, ask, failure, named)
            self._calls.suspect(len(texts), passed)
            return scores
        if answers.refused:
            raise RefusedTextsError(texts, answers.refused, answers.rows)
        return [answers.rows[place] for place in range(len(texts))]

    def _scores(self, results: Any, name: str, texts: list[str]) -> list[float]:
        """Return the scores of texts, which an answer lists as `{index, <name>}` in any order.

        Raises UnavailableError when a text has none or several, or was not sent, and UnusableScoreError when some have
        no number.
        """
        scores: dict[int, float] = {}
        with self._service.reading():
            for each in results:
                index, score = whole(each["index"]), math.nan if each[name] is None else number(each[name])
                if index >= len(texts) or index in scores:
                    raise self._unusable("a score that belongs to no text or comes twice")
                scores[index] = score
        if len(scores) != len(texts):
            raise self._unusable(f"{len(scores)} scores for {len(texts)} texts")
        finite = {index: score for index, score in scores.items() if math.isfinite(score)}
        if len(finite) < len(texts):
            failure = self._unusable("a score that is not finite")
            first = next(index for index in range(len(texts)) if index not in finite)
            error = UnusableScoreError(texts[first], failure.message, **failure.details)
            error.accepted = finite
            raise error
        return [scores[index] for index in range(len(texts))]

    def _unusable(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"{self._dialect.service} answered {what}", code=UNUSABLE, provider=self.id, error_type="unknown"
        )


def _check(query: str, texts: Sequence[str]) -> None:
    # A str is a Sequence[str] too: scoring its letters one by one would look like success.
    if isinstance(texts, str):
        raise InvalidInputError("texts must be a list of strings, not one string", field="texts")
    if len(texts) > MAX_TEXTS:
        raise InvalidInputError(f"texts are {len(texts)}, at most {MAX_TEXTS} are allowed", field="texts")
    _check_text(query, "query", {"field": "query"})
    for index, text in enumerate(texts):
        _check_text(text, f"texts[{index}]", {"field": "texts", "index": index})


def _check_text(text: str, name: str, place: dict[str, Any]) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} is not a string", **place)
    if not text.strip():
        raise InvalidInputError(f"{name} is blank", **place)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{name} is not valid Unicode", **place) from error
