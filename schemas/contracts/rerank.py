"""Reranking: texts in the order in which they answer a question."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DOCUMENTS = 1_000
MAX_CHARACTERS = 1_000_000
"""The most characters of all texts of one request: the local model reads some ten thousand in a second."""


@dataclass(frozen=True, slots=True)
class RerankDocument:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """A question and documents to put in order. `connection` is the one that scores them; `top_k` of None returns
    all."""

    query: str
    documents: tuple[RerankDocument, ...]
    top_k: int | None = None
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class Reranked:
    """A document in its new order. `score` compares documents of one answer only; `original_rank` is its place in the
    request, from 1."""

    id: str
    score: float
    original_rank: int


@dataclass(frozen=True, slots=True)
class RerankAnswer:
    """The documents, best first, and the connection that scored them, None for the local implementation."""

    reranked: list[Reranked]
    connection: str | None
