"""Checks which names are free and whose they are."""

from __future__ import annotations

from schemas.errors import ConflictError, DatabaseNotFoundError
from schemas.names import is_elsewhere, parts_of_name
from schemas.records import Collection
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import STANDS_FOR


def check_free(transaction: Transaction, name: str) -> None:
    """Raise ConflictError when a collection or an alias has the name, and DatabaseNotFoundError when its database is
    gone."""
    if is_elsewhere(name):
        tenant, database, _ = parts_of_name(name)
        if not transaction.row("SELECT 1 FROM databases WHERE tenant = ? AND name = ?", (tenant, database)):
            raise DatabaseNotFoundError(tenant, database)
    if transaction.row("SELECT 1 FROM collections WHERE name = ?", (name,)):
        raise ConflictError(
            f"Collection '{name}' already exists", code="collection_exists", field="name", collection=name
        )
    if transaction.row(f"{STANDS_FOR} alias = ?", (name,)):
        raise ConflictError(f"'{name}' is an alias of a collection", code="alias_exists", field="name")


def check_own_name(collection: Collection, name: str) -> None:
    """Raise ConflictError when a collection was asked for by an alias, where only its own name will do."""
    if name != collection.name:
        raise ConflictError(
            f"'{name}' is an alias of the collection '{collection.name}', which goes by its own name here",
            code="named_by_alias",
            field="name",
            collection=collection.name,
        )
