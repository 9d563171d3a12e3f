"""Documents to store, filters to ask by, and comparisons of what comes back."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from schemas.errors import RagError
from schemas.records import Document, DocumentBatch, Vector
from schemas.where import Where, parse_where

DIMENSION = 4
NO_DOCUMENTS = DocumentBatch([], [], [], np.empty((0, DIMENSION), dtype=np.float32))


def where(condition: dict[str, Any]) -> Where:
    """Return a JSON filter as the tree that providers take."""
    return parse_where(condition)


def batch(*documents: tuple[Any, ...], dimension: int = DIMENSION) -> DocumentBatch:
    """Return documents to store, given as `(id, metadata)` or `(id, metadata, embedding)`.

    Without an embedding each gets one of its own, the same in every run.
    """
    vectors = [
        np.asarray(each[2] if len(each) > 2 else np.random.default_rng(number).normal(size=dimension), "f4")
        for number, each in enumerate(documents)
    ]
    ids, metadatas = [each[0] for each in documents], [each[1] for each in documents]
    return DocumentBatch(ids, [f"text of {each}" for each in ids], metadatas, np.stack(vectors))


def numbered(count: int) -> DocumentBatch:
    """Return the documents d0, d1, … with their number in the field `n`."""
    return batch(*((f"d{number}", {"n": number}) for number in range(count)))


def ids_of(documents: list[Document]) -> set[str]:
    return {document.id for document in documents}


def check_embedding(found: Vector | None, stored: Vector, metric: str) -> None:
    """Check that a vector came back as it was stored; a cosine collection may return it with length 1."""
    assert found is not None
    assert found.dtype == np.float32
    if metric != "cosine":
        np.testing.assert_array_equal(found, stored)
        return
    np.testing.assert_allclose(found / np.linalg.norm(found), stored / np.linalg.norm(stored), atol=1e-6)


def errors_of(questions: list[Callable[[], Any]]) -> Iterator[RagError]:
    """Yield the error that each question raises; a question that raises none fails the test."""
    for ask in questions:
        with pytest.raises(RagError) as raised:
            ask()
        yield raised.value


def nobody_there() -> str:
    """Return a URL of this machine at which nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{reserved.getsockname()[1]}"
