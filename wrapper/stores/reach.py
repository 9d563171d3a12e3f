"""Which collections exist for the current caller, and what of them: the one place that decides it.

The caller is known from `schemas.access.callers`, so a caller's rights reach into every thread that works for them, and
work that has no caller fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from schemas.access.callers import Caller, current
from schemas.errors import CollectionForbiddenError, CollectionNotFoundError
from schemas.records import Collection
from schemas.where import EVERYTHING, Where, all_of
from wrapper.audit import noted

ViewOf = Callable[[Caller], Where]


class Reach:
    """The reach of whoever asks. A collection that is not the caller's does not exist for them.

    An alias is a name of its own: who may use it may use what it stands for. Collections that are kept apart have none.
    """

    def __init__(self) -> None:
        self._apart: dict[str, ViewOf] = {}

    def keep_apart(self, name: str, view_of: ViewOf) -> None:
        """Let callers see of a collection only what `view_of` says, whatever their key is for, and change nothing.

        Administrators see and change all of it.
        """
        self._apart[name] = view_of

    def knows(self, caller: Caller, name: str) -> bool:
        return caller.knows(name) or name in self._apart

    def owns(self, caller: Caller, name: str) -> bool:
        """Return whether a collection is the caller's as a whole."""
        return caller.knows(name) and not caller.is_filtered and (name not in self._apart or caller.is_admin)

    def reader(self, name: str) -> Caller:
        """Return the caller. Raises CollectionNotFoundError when no collection of that name is theirs."""
        caller = current()
        noted.note_collection(name)
        if not self.knows(caller, name):
            raise CollectionNotFoundError(name)
        return caller

    def seen(self, name: str) -> Where:
        """Return the filter of the documents that exist for the caller. Raises what `reader` raises."""
        return self.view(self.reader(name), name)

    def view(self, caller: Caller, name: str) -> Where:
        if caller.is_admin:
            return EVERYTHING
        return all_of(caller.where, self._apart[name](caller)) if name in self._apart else caller.where

    def check_writing(self, name: str) -> None:
        """Raise CollectionNotFoundError or CollectionForbiddenError unless the caller may write to a collection of that
        name."""
        caller = current()
        noted.note_collection(name)
        if not caller.knows(name):
            raise CollectionNotFoundError(name)
        if not self.owns(caller, name):
            raise CollectionForbiddenError(name)

    def check_adding(self, name: str) -> None:
        """Raise CollectionForbiddenError unless the caller may add to a collection, and make it where there is none."""
        caller = current()
        noted.note_collection(name)
        if not self.owns(caller, name):
            raise CollectionForbiddenError(name)

    def check_naming(self, name: str) -> None:
        """Raise CollectionForbiddenError when a collection must keep its name and have no other: one that is kept apart
        is known by it."""
        if name in self._apart:
            raise CollectionForbiddenError(name)


def viewed(collection: Collection, name: str, seen: Where) -> Collection:
    """Return a collection as its reader sees it, who asked for it by `name` and sees of it what matches `seen`.

    Its version is another than that of other readers, who may use one cache, and than that of a reader whose filter was
    changed.
    """
    if collection.name != name:
        collection = replace(collection, name=name)
    if seen == EVERYTHING:
        return collection
    # By its text: in Python, the filters for 1 and for true are equal.
    return replace(collection, view=hashlib.blake2b(repr(seen).encode(), digest_size=6).hexdigest())
