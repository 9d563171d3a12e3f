"""Whose fault it is: failures of the embedding connection and of the store, in the words of seed 001."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from schemas.errors import CollectionNotFoundError, DiskFloorError, InvalidInputError, RagError
from schemas.pipeline import EmbeddingFailureError, VectorDBFullError, VectorDBUnavailableError, VectorDBWriteError

log = structlog.get_logger(__name__)


@contextmanager
def embedding_errors() -> Iterator[None]:
    """Raises EmbeddingFailureError for what the block raises; the caller's own mistakes stay what they are."""
    try:
        yield
    except InvalidInputError:
        raise
    except RagError as error:
        raise EmbeddingFailureError(error.message, **error.details) from error


def write_error(error: RagError, sentence: str, **details: Any) -> VectorDBWriteError:
    """What a failed write is to those who brought documents; `sentence` says what was not taken."""
    kind = VectorDBFullError if isinstance(error, DiskFloorError) else VectorDBWriteError
    return kind(f"{sentence}: {error.message}", **details)


@contextmanager
def store_errors() -> Iterator[None]:
    """The same with VectorDBUnavailableError."""
    try:
        yield
    except (InvalidInputError, CollectionNotFoundError):
        raise
    except RagError as error:
        log.error("the store does not answer", reason=error.message)
        raise VectorDBUnavailableError(f"The store does not answer: {error.message}", **error.details) from error
