"""What changes in collections, for those who follow them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby

import structlog

from schemas.records import Change, Collection, Since
from schemas.storage.reembedding import EmbeddingModelDiffersError, recorded_model
from schemas.threads import begin_thread
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.feed import changes_since, check_since, history_of
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import find_collection

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.2
"""The interval at which a process looks for changes while it has followers. Writers of any process may have made
them."""
RETRY_SECONDS = 2.0
GONE_SECONDS = 0.5
"""The interval at which a follower who waits is looked for."""


@dataclass(slots=True)
class Changes:
    """The next changes of a collection, in order, in one snapshot: those of whole revisions until there are `limit`.

    `history` is what `Since` calls so, and `base` the revision since which deletions are among them. When all are
    taken, `come_to` is the revision that a follower has come to, and `is_more` whether there are others behind it.
    """

    collection: Collection
    history: str
    base: int
    limit: int
    each: Iterator[Change]
    come_to: int = 0
    is_more: bool = False

    def __iter__(self) -> Iterator[Change]:
        taken = 0
        for revision, together in groupby(self.each, key=lambda change: change.revision):
            if taken >= self.limit:
                self.is_more = True
                return
            for change in together:
                yield change
                taken += 1
            self.come_to = max(revision, 1)  # 0 would begin anew
        self.come_to = self.collection.revision


class Following:
    """Methods raise CollectionNotFoundError for a name that no collection has, TooOldError when the follower has to
    begin anew, and EmbeddingModelDiffersError when a model is named and the collection records another one, or none; an
    empty name is that of none. `clock` tells seconds."""

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        self._catalog = catalog
        self._clock = clock
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._number = 0
        """How often something has changed, in whatever collection, as the one looker of this process saw it."""
        self._waiting = 0
        self._looks = False

    def wait(
        self,
        name: str,
        since: Since,
        seconds: float,
        is_gone: Callable[[], bool],
        *,
        embedding_model: str | None = None,
    ) -> None:
        """Wait until the collection has changed since then, but no longer than that, nor when the follower `is_gone` or
        the service stops."""
        ends_at = self._clock() + seconds
        with self._looked_for():
            while True:
                seen = self._number
                if self.has_changed(name, since, embedding_model=embedding_model):
                    return
                while seen == self._number:
                    left_seconds = ends_at - self._clock()
                    if left_seconds <= 0 or is_gone() or self._stopping.is_set():
                        return
                    with self._changed:
                        self._changed.wait_for(lambda: seen != self._number, min(GONE_SECONDS, left_seconds))  # noqa: B023

    def has_changed(self, name: str, since: Since, *, embedding_model: str | None = None) -> bool:
        """Return whether the collection has changed since then."""
        with self._catalog.read() as transaction:
            collection = _followed(transaction, name, since, embedding_model)
            return collection.revision > since.revision

    def stop_waiting(self) -> None:
        """Let nobody wait any more."""
        self._stopping.set()

    @contextmanager
    def _looked_for(self) -> Iterator[None]:
        """Have changes looked for within the context, by one thread for all who wait."""
        with self._changed:
            if not self._looks:
                begin_thread("followed changes", self._look)
                self._looks = True
            self._waiting += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1

    def _look(self) -> None:
        while True:
            try:
                with self._catalog.change_counter() as changes:
                    self._look_by(changes)
                return
            except Exception:
                log.exception("changes cannot be looked for, going on")
                if self._tell():
                    return
                self._stopping.wait(RETRY_SECONDS)

    def _look_by(self, changes: Callable[[], int]) -> None:
        seen = None
        while True:
            found = changes()
            # At first too: something may have changed before.
            if self._tell(is_new=found != seen):
                return
            seen = found
            self._stopping.wait(LOOK_SECONDS)

    def _tell(self, *, is_new: bool = True) -> bool:
        """Let those who wait look for themselves when something `is_new`, and return whether nobody waits any more."""
        with self._changed:
            is_over = not self._waiting or self._stopping.is_set()
            if is_new or is_over:
                self._number += 1
                self._changed.notify_all()
            self._looks = not is_over
            return is_over

    @contextmanager
    def changes(
        self, name: str, since: Since, limit: int, *, with_embeddings: bool, embedding_model: str | None = None
    ) -> Iterator[Changes]:
        """Give what changed since then. The snapshot lasts as long as the context; its thread must read nothing else
        meanwhile."""
        with self._catalog.read() as transaction:
            collection = _followed(transaction, name, since, embedding_model)
            history = history_of(transaction, collection)
            with closing(changes_since(transaction, collection, since, with_embeddings=with_embeddings)) as each:
                yield Changes(collection, history, since.base(collection), limit, each)


def _followed(transaction: Transaction, name: str, since: Since, embedding_model: str | None) -> Collection:
    collection = find_collection(transaction, name)
    recorded = recorded_model(collection.metadata)
    if embedding_model is not None and embedding_model != (recorded or ""):
        raise EmbeddingModelDiffersError(name, stored=recorded, given=embedding_model)
    check_since(transaction, collection, since)
    return collection
