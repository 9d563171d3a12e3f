"""The re-embeddings of collections, for the current caller: only who may write to a collection is told of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from schemas.access.callers import acting_still
from schemas.records import Metadata
from schemas.storage.reembedding import Reembedding
from wrapper.stores.reach import Reach
from wrapper.stores.reembedding import Reembeddings


class ScopedReembeddings:
    def __init__(self, reembeddings: Reembeddings, reach: Reach) -> None:
        self._reembeddings = reembeddings
        self._reach = reach

    def of(self, name: str) -> Reembedding:
        return self._asked(name, self._reembeddings.of)

    @acting_still()
    def begin(self, name: str, embedding: Metadata) -> Reembedding:
        return self._asked(name, lambda full: self._reembeddings.begin(full, embedding))

    @acting_still()
    def end(self, name: str) -> Reembedding:
        return self._asked(name, self._reembeddings.end)

    @acting_still()
    def go_back(self, name: str) -> Reembedding:
        return self._asked(name, self._reembeddings.go_back)

    def _asked(self, name: str, request: Callable[[str], Reembedding]) -> Reembedding:
        name = self._reach.full(name)
        self._reach.check_writing(name)
        state = request(name)
        return replace(state, collection=self._reach.short(state.collection))
