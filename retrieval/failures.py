"""Translate failures of the embedding connection and of the store into the errors of the contract *rules*."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from registry.embedding.queries import EmbeddingMismatchError
from schemas.contracts.rule_documents import (
    EmbeddingFailureError,
    VectorDBFullError,
    VectorDBUnavailableError,
    VectorDBWriteError,
)
from schemas.errors import AccessError, CollectionNotFoundError, DiskFloorError, InvalidInputError, RagError

RagErrorT = TypeVar("RagErrorT", bound=RagError)

log = structlog.get_logger(__name__)


@contextmanager
def embedding_errors() -> Iterator[None]:
    """Turn errors of the block into EmbeddingFailureError; mistakes and limits of the caller pass as they are."""
    try:
        yield
    except (AccessError, InvalidInputError, EmbeddingFailureError):
        raise
    except RagError as error:
        raise _passing_with(error, EmbeddingFailureError(error.message, **error.details)) from error


def _passing_with(cause: RagError, error: RagErrorT) -> RagErrorT:
    """Return the error, which passes by itself when its cause does."""
    error.retry_after_seconds = cause.retry_after_seconds
    return error


def write_error(error: RagError, sentence: str, **details: Any) -> VectorDBWriteError:
    """Return the error that tells the caller of a failed write; `sentence` says what was not stored."""
    kind = VectorDBFullError if isinstance(error, DiskFloorError) else VectorDBWriteError
    return _passing_with(error, kind(f"{sentence}: {error.message}", **details))


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn errors of the block into VectorDBUnavailableError; mistakes of the caller pass as they are, and questions of
    another model than the documents."""
    try:
        yield
    except (
        AccessError,
        InvalidInputError,
        CollectionNotFoundError,
        EmbeddingMismatchError,
        EmbeddingFailureError,
        VectorDBUnavailableError,
    ):
        raise
    except RagError as error:
        log.error("the store does not answer", reason=error.message)
        unavailable = VectorDBUnavailableError(f"The store does not answer: {error.message}", **error.details)
        raise _passing_with(error, unavailable) from error
