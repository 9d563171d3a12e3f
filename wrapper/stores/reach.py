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
from schemas.names import full_name
from schemas.records import Collection
from schemas.storage.outcomes import CollectionOutcome, EarlierAnswer
from schemas.where import EVERYTHING, Where, all_of
from wrapper.audit import noted
from wrapper.writing import Written

ViewOf = Callable[[Caller], Where]


class Reach:
    """The reach of whoever asks. A collection that is not the caller's does not exist for them.

    An alias is a name of its own: who may use it may use what it stands for. Collections that are kept apart have none.
    Names are full ones here. Callers name the collections of one database, and what `full` and `viewed` do is all that
    turns their names into full ones and back.
    """

    def __init__(self, beginning: str = "", apart: dict[str, ViewOf] | None = None) -> None:
        self.beginning = beginning
        """What the full names of the database begin with: nothing in the default one."""
        self._apart: dict[str, ViewOf] = {} if apart is None else apart

    def within(self, tenant: str, database: str) -> Reach:
        """Return the reach of whoever names the collections of that database."""
        return Reach(full_name(tenant, database, ""), self._apart)

    def full(self, name: str) -> str:
        """Return the full name of a collection or alias of the database."""
        return self.beginning + name

    def short(self, name: str) -> str:
        """Return what a collection or alias of the database is called there."""
        return name.removeprefix(self.beginning)

    def viewed(self, collection: Collection, name: str, seen: Where) -> Collection:
        """Return a collection as its reader sees it, who asked for it by the full `name` and sees of it what matches
        `seen`.

        It has the name that its reader gave. Its version is another than that of other readers, who may use one cache,
        and than that of a reader whose filter was changed.
        """
        if collection.name != (asked := self.short(name)):
            collection = replace(collection, name=asked)
        if seen == EVERYTHING:
            return collection
        # By its text: in Python, the filters for 1 and for true are equal.
        return replace(collection, view=hashlib.blake2b(repr(seen).encode(), digest_size=6).hexdigest())

    def told(self, written: Written[CollectionOutcome]) -> Written[CollectionOutcome]:
        """Return a write to a collection itself, with the name that its caller knows the collection by."""
        outcome = written.outcome
        if isinstance(outcome, EarlierAnswer):
            return written
        noted.note_collection(outcome.name)
        return replace(written, outcome=replace(outcome, name=self.short(outcome.name)))

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
