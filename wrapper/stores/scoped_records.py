"""Documents as clients of Chroma know them, for the current caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from schemas.access.callers import Caller, acting_still
from schemas.errors import CollectionNotFoundError
from schemas.records import Collection, DocumentChanges
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.where import Where, all_of
from wrapper.stores.quotas import limited
from wrapper.stores.reach import Reach
from wrapper.stores.record_store import Reading, RecordStore
from wrapper.writing import WriteOptions, Written


class ScopedRecords:
    """The methods of `RecordStore`. `shown` returns a collection as a caller sees it."""

    def __init__(self, records: RecordStore, reach: Reach, shown: Callable[[Caller, Collection], Collection]) -> None:
        self._records = records
        self._reach = reach
        self._shown = shown

    def collection(self, collection_id: str) -> Collection:
        """Return the collection of that id. Raises CollectionNotFoundError, which names the id."""
        found = self._records.collection(collection_id)
        try:
            return self._shown(self._reach.reader(found.name), found)
        except CollectionNotFoundError:
            raise CollectionNotFoundError(collection_id) from None

    def waiting_writes(self, name: str) -> int:
        self._reach.reader(name)
        return self._records.waiting_writes(name)

    @acting_still()
    def merge(
        self, name: str, changes: DocumentChanges, options: WriteOptions, *, adds: bool, merges: bool
    ) -> Written[WriteOutcome]:
        self._reach.check_writing(name)
        return self._records.merge(name, changes, limited(options), adds=adds, merges=merges)

    @acting_still()
    def change_collection(
        self, name: str, options: WriteOptions, *, new_name: str | None, **changes: Any
    ) -> Written[CollectionOutcome]:
        """Raises CollectionForbiddenError for a new name that is not the caller's to give."""
        self._reach.check_writing(name)
        if new_name is not None and new_name != name:
            self._reach.check_naming(name)
            self._reach.check_naming(new_name)
            self._reach.check_adding(new_name)
        return self._reach.told(self._records.change_collection(name, options, new_name=new_name, **changes))

    @contextmanager
    def reading(
        self, name: str, where: Where, *, offset: int = 0, limit: int | None = None
    ) -> Iterator[tuple[Collection, Reading]]:
        seen = self._reach.seen(name)
        with self._records.reading(name, all_of(seen, where), offset=offset, limit=limit) as (collection, reading):
            yield self._reach.viewed(collection, name, seen), reading
