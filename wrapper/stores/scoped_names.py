"""The names of collections, for the current caller: both the old name and the new one have to be theirs."""

from __future__ import annotations

from dataclasses import replace

from schemas.access.callers import acting_still, current
from schemas.errors import AliasNotFoundError
from schemas.records import Alias
from schemas.storage.outcomes import AliasOutcome, CollectionOutcome, EarlierAnswer
from wrapper.stores.collection_names import CollectionNames
from wrapper.stores.quotas import limited
from wrapper.stores.reach import Reach
from wrapper.writing import WriteOptions, Written


class ScopedNames:
    """The methods of `CollectionNames`. They raise CollectionNotFoundError for a collection that is not the caller's,
    and CollectionForbiddenError for a new name that could not be, or that would open what is kept apart."""

    def __init__(self, names: CollectionNames, reach: Reach) -> None:
        self._names = names
        self._reach = reach

    @acting_still()
    def rename(self, name: str, new_name: str, options: WriteOptions) -> Written[CollectionOutcome]:
        name, new_name = self._reach.full(name), self._reach.full(new_name)
        self._check(name, new_name)
        return self._reach.told(self._names.rename(name, new_name, options))

    def copy(self, name: str, new_name: str, options: WriteOptions) -> Written[CollectionOutcome]:
        name, new_name = self._reach.full(name), self._reach.full(new_name)
        self._check(name, new_name)
        return self._reach.told(self._names.copy(name, new_name, limited(options)))

    @acting_still()
    def put_alias(self, alias: str, name: str, options: WriteOptions) -> Written[AliasOutcome]:
        name, alias = self._reach.full(name), self._reach.full(alias)
        self._check(name, alias)
        return self._told(self._names.put_alias(alias, name, options))

    @acting_still()
    def remove_alias(self, alias: str, options: WriteOptions) -> Written[AliasOutcome]:
        alias = self._reach.full(alias)
        self._check_known(alias)
        return self._told(self._names.remove_alias(alias, options))

    def alias(self, name: str) -> Alias:
        name = self._reach.full(name)
        self._check_known(name)
        return self._shown(self._names.alias(name))

    def aliases(self, collection: str | None = None) -> list[Alias]:
        """Return the aliases that are the caller's, by name; those of one collection when it is given."""
        of_one = None if collection is None else self._reach.full(collection)
        found = self._names.aliases(current().collections, of_one, self._reach.beginning)
        return [self._shown(each) for each in found]

    def _shown(self, alias: Alias) -> Alias:
        return Alias(self._reach.short(alias.name), self._reach.short(alias.collection))

    def _told(self, written: Written[AliasOutcome]) -> Written[AliasOutcome]:
        outcome = written.outcome
        if isinstance(outcome, EarlierAnswer):
            return written
        short = self._reach.short
        told = replace(
            outcome,
            alias=short(outcome.alias),
            collection=short(outcome.collection),
            previous=None if outcome.previous is None else short(outcome.previous),
        )
        return replace(written, outcome=told)

    @staticmethod
    def _check_known(alias: str) -> None:
        if not current().knows(alias):
            raise AliasNotFoundError(alias)

    def _check(self, name: str, new_name: str) -> None:
        self._reach.check_writing(name)
        self._reach.check_naming(name)
        self._reach.check_naming(new_name)
        self._reach.check_adding(new_name)
