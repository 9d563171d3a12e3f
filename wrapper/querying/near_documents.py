"""The direction of documents: what is asked for when a query names documents in place of a vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.errors import DocumentNotFoundError
from schemas.records import Collection, Vector
from schemas.where import Where
from wrapper.catalog import reads
from wrapper.catalog.contract import Transaction


def middle_of(transaction: Transaction, collection: Collection, ids: Sequence[str], seen: Where) -> Vector:
    """Return the mean (dimension,) of the documents' vectors. Where directions are compared, each counts the same
    whatever its length, and those of zeros, which have none, count only where there are no others.

    Raises DocumentNotFoundError for the first id that no document has which matches `seen`.
    """
    found = reads.by_ids(transaction, collection, ids, where=seen, with_embeddings=True)
    vectors = []
    for each in dict.fromkeys(ids):
        if each not in found:
            raise DocumentNotFoundError(collection.name, each)
        vector = found[each].embedding
        assert vector is not None
        vectors.append(vector.astype(np.float64))
    if len(vectors) > 1 and collection.metric == "cosine":
        vectors = [vector / np.linalg.norm(vector) for vector in vectors if vector.any()] or vectors
    middle: Vector = np.mean(vectors, axis=0).astype("<f4")
    return middle
