"""Checks whether embeddings fit the collection that they are stored in or compared with."""

from __future__ import annotations

import numpy as np

from schemas.errors import InvalidInputError
from schemas.records import Collection, Vector


def check_dimension(
    collection: Collection, dimension: int, *, field: str = "embedding", index: int | None = None
) -> None:
    """Raise InvalidInputError, with both numbers, when vectors of this dimension do not fit the collection."""
    if collection.dimension is not None and dimension != collection.dimension:
        raise InvalidInputError(
            f"Embedding dimension mismatch: collection '{collection.name}' has {collection.dimension}, got {dimension}",
            code="dimension_mismatch",
            field=field,
            index=index,
            expected=collection.dimension,
            actual=dimension,
        )


def check_directions(
    collection: Collection, vectors: Vector, *, field: str = "embedding", index: int | None = 0
) -> None:
    """Raise InvalidInputError when a vector of the matrix (n, dimension) has no direction and the collection compares
    directions. The first vector stands at `index` of the request."""
    if collection.metric != "cosine":
        return
    has_direction = vectors.any(axis=1)
    if not has_direction.all():
        raise InvalidInputError(
            f"{field} must not be all zeros: the metric of collection '{collection.name}' is cosine, and a zero vector "
            "has no direction",
            code="zero_vector",
            field=field,
            index=None if index is None else index + int(has_direction.argmin()),
        )


def check_question(collection: Collection, embedding: Vector) -> None:
    """Raise InvalidInputError when a query cannot be compared with the collection's documents: for its dimension, for
    a component that is no number, and for want of a direction where directions are compared."""
    check_dimension(collection, len(embedding), field="query_embedding")
    if not np.isfinite(embedding).all():
        position = int(np.isfinite(embedding).argmin())
        raise InvalidInputError(
            f"query_embedding must hold finite float32 numbers; element {position} is not",
            code="invalid_embedding",
            field="query_embedding",
        )
    check_directions(collection, embedding[np.newaxis], field="query_embedding", index=None)
