"""The requests about indexes, for the current caller: only who may write to a collection is told of its index."""

from __future__ import annotations

from collections.abc import Sequence

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
        self._reach.check_writing(name)
        return self._requests.of(name)

    def of_all(self, collections: Sequence[Collection]) -> list[IndexStatus]:
        """Return what is known of the indexes of those of these collections that `of` would tell about."""
        caller = current()
        return self._requests.of_all([each for each in collections if self._reach.owns(caller, each.name)])

    def check(self, name: str) -> IndexStatus:
        self._reach.check_writing(name)
        return self._requests.check(name)

    def rebuild(self, name: str) -> IndexStatus:
        self._reach.check_writing(name)
        return self._requests.rebuild(name)
