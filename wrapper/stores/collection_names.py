"""What clients do to the names of collections: renames, aliases and copies under another name."""

from __future__ import annotations

from schemas.errors import InvalidInputError
from schemas.records import Alias
from schemas.storage.outcomes import AliasOutcome, CollectionOutcome
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import aliases, renaming
from wrapper.catalog.rows import Patterns
from wrapper.indexing.engine_collections import is_in_transit
from wrapper.stores.copying import Copying
from wrapper.writing import WriteOptions, Writing, Written


def check_not_in_transit(name: str) -> None:
    """Raise InvalidInputError for a name that the service itself uses for collections of the engine: the mark of the
    engine's owner would have to make way for it."""
    if is_in_transit(name):
        raise InvalidInputError(
            f"'{name}' is a name that the service uses itself: choose another", code="invalid_name", field="name"
        )


class CollectionNames:
    """Every method raises CollectionNotFoundError for a collection that is not there."""

    def __init__(self, catalog: Catalog, writing: Writing, copying: Copying) -> None:
        self._catalog = catalog
        self._writing = writing
        self._copying = copying

    def rename(self, name: str, new_name: str, options: WriteOptions) -> Written[CollectionOutcome]:
        """Rename a collection. Raises ConflictError when the new name is taken, or when `name` is an alias."""
        check_not_in_transit(new_name)
        return self._writing.write(
            CollectionOutcome,
            name,
            lambda transaction: CollectionOutcome.of(*renaming.rename(transaction, name, new_name)),
            options,
            deletes=True,  # nothing that the index would have to be told
            name_after=new_name,
        )

    def copy(self, name: str, new_name: str, options: WriteOptions) -> Written[CollectionOutcome]:
        """Copy a collection, as it is now, under a new name: all of it or nothing. Raises ConflictError when the name
        is taken, and TooSlowError when it takes too long."""
        check_not_in_transit(new_name)
        return self._copying.copy(name, new_name, options)

    def put_alias(self, alias: str, name: str, options: WriteOptions) -> Written[AliasOutcome]:
        """Let an alias stand for a collection, whatever it stood for before. Raises ConflictError when a collection has
        the name."""

        def operation(transaction: Transaction) -> AliasOutcome:
            made, before = aliases.put(transaction, alias, name)
            return AliasOutcome(0, None, alias=made.name, collection=made.collection, previous=before)

        return self._writing.write(AliasOutcome, name, operation, options, deletes=True)

    def remove_alias(self, alias: str, options: WriteOptions) -> Written[AliasOutcome]:
        """Remove an alias. Raises AliasNotFoundError when there is none of that name."""

        def operation(transaction: Transaction) -> AliasOutcome:
            removed = aliases.remove(transaction, alias)
            return AliasOutcome(0, None, alias=removed.name, collection=removed.collection)

        return self._writing.write(AliasOutcome, alias, operation, options, deletes=True)

    def alias(self, name: str) -> Alias:
        """Return an alias. Raises AliasNotFoundError when there is none of that name."""
        with self._catalog.read() as transaction:
            return aliases.find(transaction, name)

    def aliases(
        self, within: Patterns = None, collection: str | None = None, beginning: str | None = None
    ) -> list[Alias]:
        """Return the aliases whose names are within the patterns, by name; those of one collection, or of the database
        with that `beginning` of full names, when it is given."""
        with self._catalog.read() as transaction:
            return aliases.all_of(transaction, within, collection, beginning)
