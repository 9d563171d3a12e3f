"""Vectors of a service's collection that are of one model, although it may be re-embedded at any moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from schemas.connections import CollectionInfo
from schemas.records import Document
from schemas.storage.reembedding import ReembeddedMeanwhileError, recorded_model

ATTEMPTS = 3
"""How often vectors are read of a collection that is written to each time meanwhile."""


def of_one_model(
    model: str, read: Callable[[], tuple[list[Document], int]], describe: Callable[[], CollectionInfo]
) -> list[Document]:
    """Return the documents that `read` gives with the revision of their collection, if their vectors are of the model
    of that name, which is empty while the collection records none.

    Raises ReembeddedMeanwhileError when they are of another one. An answer names no model, a description of the same
    revision does; where each description is of another revision, the documents come without vectors.
    """
    for _ in range(ATTEMPTS):
        documents, revision = read()
        described = describe()
        if (recorded_model(described.metadata) or "") != model:
            raise ReembeddedMeanwhileError(described.name)
        if described.revision == revision:
            return documents
    return [replace(each, embedding=None) for each in documents]
