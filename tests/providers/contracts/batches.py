"""Documents to store."""

from __future__ import annotations

import numpy as np

from schemas.records import DocumentBatch


def batch(*documents, dimension=4):
    """`(id, metadata)` or `(id, metadata, embedding)` each; embeddings of their own when not given."""
    vectors = [
        np.asarray(each[2] if len(each) > 2 else np.random.default_rng(number).normal(size=dimension), "f4")
        for number, each in enumerate(documents)
    ]
    ids, metadatas = [each[0] for each in documents], [each[1] for each in documents]
    return DocumentBatch(ids, [f"text of {each}" for each in ids], metadatas, np.stack(vectors))
