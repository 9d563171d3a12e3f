"""Validate a running service: its parts, its embeddings, and whether it finds what a gate says it must (contract
*context*, "Pre-Validation Script")."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from retrieval.context.items import SESSION_ID
from retrieval.validation.gates import Gate
from schemas.errors import RagError
from schemas.plurals import counted

INFRASTRUCTURE, EMBEDDINGS, INDEXING = "infrastructure", "embeddings", "indexing"
ACCURACY, CLEAN_UP = "accuracy", "clean-up"
PARTS = {
    "storage": "Storage",
    "vectorStore": "Vector engine",
    "embedding": "Embedding service",
    "chat": "Chat service",
    "textSearch": "Text search",
}
SHORTEST, LONGEST = 0.9, 1.1
"""The bounds of an embedding's magnitude (contract *context*)."""
AGENT = "validation"

Json = dict[str, Any]


class Service(Protocol):
    """The service to validate, however it is reached. Both methods raise RagError when it fails."""

    def call_tool(self, name: str, arguments: Json) -> Json: ...

    def delete_documents(self, name: str, *, where: Json) -> int: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried; `found` is the outcome, or the reason why it failed."""

    phase: str
    name: str
    passed: bool
    found: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a validation: `relevant` of `queries` found what was expected.

    A query that did not is not a failed step: the gate demands only a share of them.
    """

    gate: str
    steps: tuple[Step, ...]
    relevant: int
    queries: int
    required_accuracy: float

    @property
    def accuracy(self) -> float:
        return self.relevant / self.queries

    @property
    def parts_passed(self) -> bool:
        """Return whether all steps passed, leaving out queries."""
        return all(step.passed for step in self.steps if step.phase != ACCURACY)

    @property
    def passed(self) -> bool:
        return self.parts_passed and self.accuracy >= self.required_accuracy


class Validation:
    """One validation. Its documents are indexed in a session of their own and deleted whatever happens."""

    def __init__(
        self,
        service: Service,
        embedding: EmbeddingProvider,
        gate: Gate,
        *,
        collection: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._service = service
        self._embedding = embedding
        self._gate = gate
        self._collection = collection
        self._clock = clock
        self._session = f"{AGENT}-{uuid.uuid4()}"

    def steps(self) -> Iterator[Step]:
        """Yield each step when it is done; if any part of the service is unhealthy, nothing is indexed or asked."""
        well = True
        for step in chain(self._infrastructure(), self._embeddings()):
            well = well and step.passed
            yield step
        if not well:
            return
        try:
            indexed = True
            for step in self._index():
                indexed = indexed and step.passed
                yield step
            if indexed:
                yield from self._ask()
        finally:
            cleaned = self._clean_up()
        yield cleaned

    def report(self, steps: list[Step]) -> Report:
        relevant = sum(step.passed for step in steps if step.phase == ACCURACY)
        return Report(self._gate.name, tuple(steps), relevant, len(self._gate.queries), self._gate.min_accuracy)

    def _infrastructure(self) -> Iterator[Step]:
        health: Json = {}

        def ask() -> str:
            health.update(self._service.call_tool("rag_context_health", {}))
            return str(health["status"])

        yield self._step(INFRASTRUCTURE, "Service", ask)
        if not health:
            return
        for name, title in PARTS.items():
            if name not in health:  # no chat model is configured
                continue
            part = health[name]
            yield Step(INFRASTRUCTURE, title, part["healthy"], part.get("error", "well"), part["latencyMs"])
        is_open = bool(health["circuitBreakerOpen"])
        yield Step(INFRASTRUCTURE, "Circuit breaker", not is_open, "open" if is_open else "closed", 0.0)

    def _embeddings(self) -> Iterator[Step]:
        wanted = self._gate.dimension
        try:
            self._embedding.warm_up()
        except RagError as error:
            yield Step(EMBEDDINGS, "Embedding model", False, error.message, 0.0)
            return
        for number, sample in enumerate(self._gate.samples, start=1):
            step, dimension = self._sample(number, sample, wanted)
            wanted = wanted or dimension
            yield step

    def _sample(self, number: int, sample: str, wanted: int | None) -> tuple[Step, int | None]:
        name = f"Embedding {number}/{len(self._gate.samples)}"
        began = self._clock()
        try:
            vector = self._embedding.embed([sample])[0]
        except RagError as error:
            return Step(EMBEDDINGS, name, False, error.message, self._since(began)), None
        latency_ms, dimension = self._since(began), len(vector)
        magnitude = math.sqrt(float(np.dot(vector.astype(np.float64), vector.astype(np.float64))))
        faults = []
        if wanted is not None and dimension != wanted:
            faults.append(f"{dimension} dimensions where {wanted} are expected")
        if not SHORTEST <= magnitude <= LONGEST:
            faults.append(f"magnitude {magnitude:.3f} outside [{SHORTEST}, {LONGEST}]")
        if latency_ms > self._gate.max_embedding_ms:
            faults.append(f"took longer than {self._gate.max_embedding_ms:g} ms")
        found = "; ".join(faults) or f"{dimension} dimensions, magnitude {magnitude:.3f}"
        return Step(EMBEDDINGS, name, not faults, found, latency_ms), dimension

    def _index(self) -> Iterator[Step]:
        for number, document in enumerate(self._gate.documents, start=1):
            arguments = {"contentType": "documentation", "source": AGENT, **document, "sessionId": self._session}

            def index(arguments: Json = arguments) -> str:
                return counted(self._service.call_tool("rag_context_index", arguments)["chunksIndexed"], "chunk")

            yield self._step(INDEXING, f"Document {number}/{len(self._gate.documents)}", index)

    def _ask(self) -> Iterator[Step]:
        for query in self._gate.queries:
            given = {name: value for name, value in query.items() if name != "expected"}
            arguments = {"limit": self._gate.limit, "agent": AGENT, **given}
            began = self._clock()
            try:
                answer = self._service.call_tool("rag_context_search", arguments)
            except RagError as error:
                yield Step(ACCURACY, query["query"], False, error.message, self._since(began))
                continue
            passed, found = _judged(answer, query["expected"])
            yield Step(ACCURACY, query["query"], passed, found, self._since(began))

    def _clean_up(self) -> Step:
        def delete() -> str:
            deleted = self._service.delete_documents(self._collection, where={SESSION_ID: self._session})
            return f"{counted(deleted, 'chunk')} deleted"

        return self._step(CLEAN_UP, "Clean-up", delete)

    def _step(self, phase: str, name: str, act: Callable[[], str]) -> Step:
        began = self._clock()
        try:
            return Step(phase, name, True, act(), self._since(began))
        except RagError as error:
            return Step(phase, name, False, error.message, self._since(began))

    def _since(self, began: float) -> float:
        return round((self._clock() - began) * 1e3, 3)


def _judged(answer: Json, expected: str) -> tuple[bool, str]:
    """Judge one search. One that fell back fails, because it does not show that the first level works."""
    if answer["fallback"]:
        return False, f"answered at level {answer['fallbackLevel']}"
    for rank, result in enumerate(answer["results"], start=1):
        if expected.casefold() in result["content"].casefold():
            return True, f"'{expected}' is in result {rank}"
    return False, f"'{expected}' is in none of {len(answer['results'])} results"
