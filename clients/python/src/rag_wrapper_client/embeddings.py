"""Embeddings on the wire: the base64 of little-endian float32."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float32]


def encoded(embedding: ArrayLike | str) -> str:
    """Return an embedding as it travels. What is base64 already stays as it is. Raises ValueError for anything but
    one row of numbers."""
    if isinstance(embedding, str):
        return embedding
    numbers = np.asarray(embedding)
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        raise ValueError(
            f"an embedding is one row of numbers, not an array of shape {numbers.shape} of {numbers.dtype}"
        )
    with np.errstate(over="ignore"):  # the service names a number that is too large
        return base64.b64encode(numbers.astype("<f4").tobytes()).decode("ascii")


def decoded(embedding: Sequence[float] | str) -> Vector:
    """Return an embedding of an answer, numbers or base64, as an array of float32."""
    if not isinstance(embedding, str):
        return np.asarray(embedding, dtype=np.float32)
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32, copy=False)
    except (binascii.Error, ValueError) as error:
        raise ValueError("this is not the base64 of float32 numbers") from error


def matrix(documents: Iterable[Mapping[str, Any]]) -> Vector:
    """Return the embeddings of documents, or of results, as the rows of one matrix. They must have been asked for with
    `include=["embedding"]`."""
    rows = [decoded(document["embedding"]) for document in documents]
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
