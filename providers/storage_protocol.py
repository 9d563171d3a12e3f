"""The storage proxy of this process, as providers see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from schemas.records import (
    Collection,
    Document,
    DocumentBatch,
    Gathered,
    GatherSpec,
    Match,
    Metadata,
    OrderBy,
    Page,
    TextMatch,
    Vector,
)
from schemas.where import Where


class Found(Protocol):
    """The answer of a vector query."""

    @property
    def matches(self) -> list[Match]: ...
    @property
    def collection(self) -> Collection: ...
    @property
    def plan(self) -> str: ...
    @property
    def compared(self) -> int | None: ...
    @property
    def recall(self) -> float | None: ...


class Written(Protocol):
    """The outcome of a write."""

    @property
    def indexed(self) -> bool: ...


class Storage(Protocol):
    """Collections of documents, by name. A method that is given an unknown name raises CollectionNotFoundError."""

    def collections(self) -> list[Collection]:
        """Return all collections, sorted by name."""

    def collection(self, name: str) -> Collection: ...

    def collections_named(self, names: Sequence[str]) -> list[Collection]:
        """Return the collections of these names that exist, read at once."""

    def create_collection(self, name: str, metadata: Metadata, metric: str) -> object: ...

    def delete_collection(self, name: str) -> object: ...

    def add_documents(
        self,
        name: str,
        batch: DocumentBatch,
        *,
        replace_where: Where | None = None,
        unless: Where | None = None,
        collection_id: str | None = None,
        collection_key: int | None = None,
    ) -> Written:
        """Store documents. Raises AlreadyThereError when a stored document matches `unless`, CollectionNotFoundError
        when the collection has another id than `collection_id`, and ReembeddedMeanwhileError when it has another key
        than `collection_key`."""

    def delete_documents(
        self,
        name: str,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        collection_id: str | None = None,
    ) -> object:
        """Delete documents; `collection_id` as `add_documents` takes it."""

    def page(
        self,
        name: str,
        where: Where,
        *,
        limit: int,
        order_by: tuple[OrderBy, ...] = (),
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> tuple[Page, Collection]: ...

    def documents(
        self, name: str, ids: Sequence[str], *, with_embeddings: bool = False
    ) -> tuple[list[Document], Collection]: ...

    def query(self, name: str, embedding: Vector, *, top_k: int, where: Where, with_embeddings: bool) -> Found: ...

    def text_search(
        self, name: str, query: str, where: Where, *, limit: int
    ) -> tuple[list[TextMatch], int, Collection]: ...

    def gather(self, name: str, spec: GatherSpec, *, ids: Sequence[str] | None) -> Gathered: ...


def folder_bytes(folder: Path) -> int:
    """Return how many bytes the files in a folder take, without those that disappear meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
