"""The requests about indexes, for the current caller: only who may write to a collection is told of its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from schemas.access.callers import current
from schemas.records import Collection
from schemas.storage.index_reports import IndexStatus
from wrapper.stores.index_requests import IndexRequests
from wrapper.stores.reach import Reach


class ScopedIndexes:
    def __init__(self, requests: IndexRequests, reach: Reach) -> None:
        self._requests = requests
        self._reach = reach

    def of(self, name: str) -> IndexStatus:
        return self._asked(name, self._requests.of)

    def of_all(self, collections: Sequence[Collection]) -> list[IndexStatus]:
        """Return what is known of the indexes of those of these collections that `of` would tell about."""
        caller = current()
        owned = [each for each in collections if self._reach.owns(caller, self._reach.full(each.name))]
        return self._requests.of_all(owned)

    def check(self, name: str) -> IndexStatus:
        return self._asked(name, self._requests.check)

    def rebuild(self, name: str, *, records: str | None = None) -> IndexStatus:
        return self._asked(name, partial(self._requests.rebuild, records=records))

    def _asked(self, name: str, request: Callable[[str], IndexStatus]) -> IndexStatus:
        name = self._reach.full(name)
        self._reach.check_writing(name)
        return self._shown(request(name))

    def _shown(self, status: IndexStatus) -> IndexStatus:
        collection = status.collection
        return replace(status, collection=replace(collection, name=self._reach.short(collection.name)))
