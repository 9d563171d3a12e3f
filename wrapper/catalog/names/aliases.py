"""Aliases: names that stand for a collection wherever a collection is named.

No alias has the name of a collection. An alias goes with its collection, and stays with it when that is renamed.
"""

from __future__ import annotations

from schemas.errors import AliasNotFoundError, ConflictError
from schemas.names import AFTER_NAMES, FIRST_NAME
from schemas.records import Alias
from wrapper.catalog.contract import Sql, Transaction
from wrapper.catalog.rows import Patterns, find_collection, names_condition

ALIAS = "SELECT a.alias, c.name FROM aliases a JOIN collections c ON c.key = a.collection_key"


def put(transaction: Transaction, alias: str, name: str) -> tuple[Alias, str | None]:
    """Let an alias stand for the collection of that name, or of that alias. Return it, and what it stood for before.

    Raises ConflictError when a collection has the name.
    """
    if transaction.row("SELECT 1 FROM collections WHERE name = ?", (alias,)):
        raise ConflictError(
            f"Collection '{alias}' already exists: an alias needs a name of its own",
            code="collection_exists",
            field="alias",
        )
    collection = find_collection(transaction, name)
    before = transaction.row(f"{ALIAS} WHERE a.alias = ?", (alias,))
    transaction.run(
        "INSERT INTO aliases (alias, collection_key) VALUES (?, ?) "
        "ON CONFLICT (alias) DO UPDATE SET collection_key = excluded.collection_key",
        (alias, collection.key),
    )
    return Alias(alias, collection.name), None if before is None else before[1]


def find(transaction: Transaction, alias: str) -> Alias:
    """Return an alias. Raises AliasNotFoundError when there is none of that name."""
    row = transaction.row(f"{ALIAS} WHERE a.alias = ?", (alias,))
    if row is None:
        raise AliasNotFoundError(alias)
    return Alias(*row)


def all_of(
    transaction: Transaction, within: Patterns = None, collection: str | None = None, beginning: str | None = None
) -> list[Alias]:
    """Return the aliases whose names are within the patterns, by name; those of one collection, or of the database with
    that `beginning` of full names, when it is given."""
    conditions = [names_condition("a.alias", within)]
    if collection is not None:
        conditions.append(Sql("c.name = ?", (collection,)))
    if beginning is not None:
        conditions.append(Sql("a.alias >= ? AND a.alias < ?", (beginning or FIRST_NAME, beginning + AFTER_NAMES)))
    rows = transaction.rows(
        f"{ALIAS} WHERE {' AND '.join(each.text for each in conditions)} ORDER BY a.alias",
        tuple(each for condition in conditions for each in condition.parameters),
    )
    return [Alias(*row) for row in rows]


def remove(transaction: Transaction, alias: str) -> Alias:
    """Remove an alias and return it; its collection stays. Raises AliasNotFoundError when there is none."""
    found = find(transaction, alias)
    transaction.run("DELETE FROM aliases WHERE alias = ?", (alias,))
    return found
