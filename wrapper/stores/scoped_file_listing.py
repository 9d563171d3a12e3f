"""Lists of stores and their documents, for the current caller."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.access.callers import current
from schemas.records import Document
from schemas.where import EVERYTHING, Where, all_of
from wrapper.stores.file_listing import FileListing
from wrapper.stores.reach import Reach


class ScopedFileListing:
    """The methods of `FileListing`."""

    def __init__(self, listing: FileListing, reach: Reach) -> None:
        self._listing = listing
        self._reach = reach

    def neighbours(
        self, name: str, where: Where, *, position: int | None, newest_first: bool, limit: int
    ) -> list[Document]:
        seen = all_of(self._reach.seen(name), where)
        return self._listing.neighbours(name, seen, position=position, newest_first=newest_first, limit=limit)

    def held_bytes(self, names: Sequence[str]) -> dict[str, int]:
        """Return what `FileListing.held_bytes` does, without collections of which the caller sees only a part."""
        caller = current()
        whole = [name for name in names if self._reach.view(caller, name) == EVERYTHING]
        return self._listing.held_bytes(whole)
