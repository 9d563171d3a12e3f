"""Outcomes of writes: the store returns them, `schemas/wire/storage` spells them, idempotency keys keep them.

The rows of idempotency keys hold these fields by name for a day, across upgrades too. So a field that is added has a
default, and renaming one takes a step in `wrapper/catalog/migrations.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas.records import Collection, Metadata, version_of


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of a write of documents.

    `outbox_id` is the entry that the index still has to apply, None when nothing changed. `ids` are those of the
    documents that it was given.
    """

    revision: int
    outbox_id: int | None
    ids: list[str] = field(default_factory=list)
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0

    @property
    def count(self) -> int:
        """The number of documents that are stored as they were given."""
        return self.created + self.updated + self.unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOutcome(WriteOutcome):
    """The outcome of a write to a collection itself."""

    id: str
    name: str
    metadata: Metadata
    metric: str
    dimension: int | None = None
    configuration: str | None = None
    existed: bool = False
    """Whether the collection that was to be made was there."""

    @property
    def version(self) -> str:
        """The `ETag` of the state in which the write left the collection."""
        return version_of(self.id, self.revision)

    @classmethod
    def of(cls, collection: Collection, outcome: WriteOutcome, *, existed: bool = False) -> CollectionOutcome:
        """Return the outcome with the collection as it is after the write."""
        return cls(
            outcome.revision,
            outcome.outbox_id,
            created=outcome.created,
            id=collection.id,
            name=collection.name,
            metadata=collection.metadata,
            metric=collection.metric,
            dimension=collection.dimension,
            configuration=collection.configuration,
            existed=existed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasOutcome(WriteOutcome):
    """The outcome of a write to an alias; `previous` is what it stood for before, None for nothing."""

    alias: str
    collection: str
    previous: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOutcome(WriteOutcome):
    """The outcome of a stream of documents.

    `ids` are empty where there are more than an answer holds. Of `errors_total` faulty lines, `errors` tells the first,
    as they are answered.
    """

    errors: list[dict[str, Any]]
    errors_total: int
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome(WriteOutcome):
    """The outcome of an import. `verified` means that the stream was compared with what its sender had announced."""

    sha256: str
    verified: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """The answer that an earlier release kept for an idempotency key in place of an outcome."""

    answer: dict[str, Any]

    @property
    def ids(self) -> list[str]:
        """The documents that the answer names."""
        found: list[str] = self.answer.get("ids") or [self.answer[key] for key in ("id",) if key in self.answer]
        return found
