"""What changes in collections, for the current caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from schemas.errors import PartlySeenError
from schemas.records import Since
from schemas.where import EVERYTHING
from wrapper.stores.following import Changes, Following
from wrapper.stores.reach import Reach


class ScopedFollowing:
    """The methods of `Following`. They raise PartlySeenError for a collection of which the caller sees only a part:
    what was deleted is not known to have been in it."""

    def __init__(self, following: Following, reach: Reach) -> None:
        self._following = following
        self._reach = reach

    def has_changed(self, name: str, since: Since, *, embedding_model: str | None = None) -> bool:
        return self._following.has_changed(self._whole(name), since, embedding_model=embedding_model)

    def wait(
        self,
        name: str,
        since: Since,
        seconds: float,
        is_gone: Callable[[], bool],
        *,
        embedding_model: str | None = None,
    ) -> None:
        self._following.wait(self._whole(name), since, seconds, is_gone, embedding_model=embedding_model)

    @contextmanager
    def changes(
        self, name: str, since: Since, limit: int, *, with_embeddings: bool, embedding_model: str | None = None
    ) -> Iterator[Changes]:
        with self._following.changes(
            self._whole(name), since, limit, with_embeddings=with_embeddings, embedding_model=embedding_model
        ) as found:
            shown = self._reach.viewed(found.collection, self._reach.full(name), EVERYTHING)
            yield replace(found, collection=shown)

    def _whole(self, name: str) -> str:
        full = self._reach.full(name)
        if self._reach.seen(full) != EVERYTHING:
            raise PartlySeenError(name)
        return full
