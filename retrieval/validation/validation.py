"""Validate a running service: its parts, its embeddings, and whether it finds what a gate says it must (contract
*context*, "Pre-Validation Script")."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np

from providers.embeddings.base import EmbeddingProvider
from retrieval.clock import milliseconds_since
from retrieval.context.items import SESSION_ID
from retrieval.validation.gates import Gate
from schemas.errors import RagError
from schemas.plurals import counted
from schemas.words.splitting import normalized

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
Outcome = tuple[bool, str]
"""Whether a step passed, and what was found."""


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

    def __init__(self, service: Service, embedding: EmbeddingProvider, gate: Gate, *, collection: str) -> None:
        self._service = service
        self._embedding = embedding
        self._gate = gate
        self._collection = collection
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
                for query in self._gate["queries"]:
                    yield _step(ACCURACY, query["query"], partial(self._ask, query))
        finally:
            cleaned = _step(CLEAN_UP, "Clean-up", self._clean_up)
        yield cleaned

    def report(self, steps: list[Step]) -> Report:
        relevant = sum(step.passed for step in steps if step.phase == ACCURACY)
        gate = self._gate
        return Report(gate["name"], tuple(steps), relevant, len(gate["queries"]), gate["minAccuracy"])

    def _infrastructure(self) -> Iterator[Step]:
        health: Json = {}

        def ask() -> Outcome:
            health.update(self._service.call_tool("rag_context_health", {}))
            return True, str(health["status"])

        yield _step(INFRASTRUCTURE, "Service", ask)
        if not health:
            return
        for name, title in PARTS.items():
            if name in health:  # else no chat model is configured
                part = health[name]
                yield Step(INFRASTRUCTURE, title, part["healthy"], part.get("error", "well"), part["latencyMs"])
        is_open = bool(health["circuitBreakerOpen"])
        yield Step(INFRASTRUCTURE, "Circuit breaker", not is_open, "open" if is_open else "closed", 0.0)

    def _embeddings(self) -> Iterator[Step]:
        try:
            self._embedding.warm_up()
        except RagError as error:
            yield Step(EMBEDDINGS, "Embedding model", False, error.message, 0.0)
            return
        samples = self._gate["embeddingSamples"]
        dimensions = [self._gate["dimension"]] if "dimension" in self._gate else []
        for number, sample in enumerate(samples, start=1):
            yield _step(EMBEDDINGS, f"Embedding {number}/{len(samples)}", partial(self._embed, sample, dimensions))

    def _embed(self, sample: str, dimensions: list[int]) -> Outcome:
        """Embed a sample, whose vector must have the first of the `dimensions`: that of the gate, else of the sample
        before it."""
        began = time.perf_counter()
        vector = self._embedding.embed([sample])[0].astype(np.float64)
        latency_ms = milliseconds_since(began)
        dimensions.append(len(vector))
        magnitude = float(np.linalg.norm(vector))
        faults = []
        if len(vector) != dimensions[0]:
            faults.append(f"{len(vector)} dimensions where {dimensions[0]} are expected")
        if not SHORTEST <= magnitude <= LONGEST:
            faults.append(f"magnitude {magnitude:.3f} outside [{SHORTEST}, {LONGEST}]")
        if latency_ms > self._gate["maxEmbeddingMs"]:
            faults.append(f"took longer than {self._gate['maxEmbeddingMs']:g} ms")
        return not faults, "; ".join(faults) or f"{len(vector)} dimensions, magnitude {magnitude:.3f}"

    def _index(self) -> Iterator[Step]:
        documents = self._gate["documents"]
        for number, document in enumerate(documents, start=1):
            arguments = {"contentType": "documentation", "source": AGENT, **document, "sessionId": self._session}

            def index(arguments: Json = arguments) -> Outcome:
                return True, counted(self._service.call_tool("rag_context_index", arguments)["chunksIndexed"], "chunk")

            yield _step(INDEXING, f"Document {number}/{len(documents)}", index)

    def _ask(self, query: Json) -> Outcome:
        """Judge one search. One that fell back fails, because it does not show that the first level works."""
        given = {name: value for name, value in query.items() if name != "expected"}
        answer = self._service.call_tool("rag_context_search", {"limit": self._gate["limit"], "agent": AGENT, **given})
        if answer["fallback"]:
            return False, f"answered at level {answer['fallbackLevel']}"
        expected = query["expected"]
        for rank, result in enumerate(answer["results"], start=1):
            if normalized(expected).casefold() in normalized(result["content"]).casefold():
                return True, f"'{expected}' is in result {rank}"
        return False, f"'{expected}' is in none of {len(answer['results'])} results"

    def _clean_up(self) -> Outcome:
        deleted = self._service.delete_documents(self._collection, where={SESSION_ID: self._session})
        return True, f"{counted(deleted, 'chunk')} deleted"


def _step(phase: str, name: str, act: Callable[[], Outcome]) -> Step:
    began = time.perf_counter()
    try:
        passed, found = act()
    except RagError as error:
        passed, found = False, error.message
    return Step(phase, name, passed, found, milliseconds_since(began))
