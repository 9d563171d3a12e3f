"""Tenants and databases, which collections are in. The default ones are always there."""

from __future__ import annotations

import uuid

from schemas.errors import ConflictError, DatabaseNotFoundError, TenantNotFoundError
from schemas.names import AFTER_NAMES, DEFAULT_DATABASE, DEFAULT_TENANT, FIRST_NAME, full_name
from schemas.records import Database
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import all_collections, names_between

DATABASE = "SELECT id, name, tenant FROM databases"


def create_tenant(transaction: Transaction, name: str) -> None:
    """Raises ConflictError when there is one of that name."""
    if has_tenant(transaction, name):
        raise ConflictError(f"Tenant [{name}] already exists", code="tenant_exists", field="name")
    transaction.run("INSERT INTO tenants (name) VALUES (?)", (name,))


def has_tenant(transaction: Transaction, name: str) -> bool:
    return transaction.row("SELECT 1 FROM tenants WHERE name = ?", (name,)) is not None


def create_database(transaction: Transaction, tenant: str, name: str) -> None:
    """Raises TenantNotFoundError, and ConflictError when the tenant has one of that name."""
    if not has_tenant(transaction, tenant):
        raise TenantNotFoundError(tenant)
    if _row(transaction, tenant, name) is not None:
        raise ConflictError(f"Database [{name}] already exists", code="database_exists", field="name")
    transaction.run("INSERT INTO databases (tenant, name, id) VALUES (?, ?, ?)", (tenant, name, str(uuid.uuid4())))


def find_database(transaction: Transaction, tenant: str, name: str) -> Database:
    """Return a database. Raises DatabaseNotFoundError when the tenant has none of that name."""
    row = _row(transaction, tenant, name)
    if row is None:
        raise DatabaseNotFoundError(tenant, name)
    return Database(*row)


def databases_of(transaction: Transaction, tenant: str) -> list[Database]:
    """Return the databases of a tenant by name; none when there is no such tenant."""
    rows = transaction.rows(f"{DATABASE} WHERE tenant = ? ORDER BY name", (tenant,))
    return [Database(*row) for row in rows]


def all_databases(transaction: Transaction) -> list[Database]:
    """Return all databases, by tenant and name."""
    return [Database(*row) for row in transaction.rows(f"{DATABASE} ORDER BY tenant, name")]


def delete_database(transaction: Transaction, tenant: str, name: str) -> list[str]:
    """Delete a database with all its collections, and return their full names. Raises DatabaseNotFoundError."""
    find_database(transaction, tenant, name)
    doomed = names_in(transaction, tenant, name)
    for each in doomed:
        collection_writes.delete_collection(transaction, each)
    transaction.run("DELETE FROM databases WHERE tenant = ? AND name = ?", (tenant, name))
    return doomed


def names_in(transaction: Transaction, tenant: str, database: str) -> list[str]:
    """Return the full names of the collections of a database, in order."""
    beginning = full_name(tenant, database, "")
    return names_between(transaction, beginning or FIRST_NAME, beginning + AFTER_NAMES)


def delete_everything(transaction: Transaction) -> None:
    """Delete all collections, and all tenants and databases but the default ones."""
    for each in all_collections(transaction):
        collection_writes.delete_collection(transaction, each.name)
    transaction.run("DELETE FROM tenants WHERE name <> ?", (DEFAULT_TENANT,))
    transaction.run("DELETE FROM databases WHERE tenant <> ? OR name <> ?", (DEFAULT_TENANT, DEFAULT_DATABASE))
    if _row(transaction, DEFAULT_TENANT, DEFAULT_DATABASE) is None:
        create_database(transaction, DEFAULT_TENANT, DEFAULT_DATABASE)


def _row(transaction: Transaction, tenant: str, name: str) -> tuple[str, str, str] | None:
    row = transaction.row(f"{DATABASE} WHERE tenant = ? AND name = ?", (tenant, name))
    return None if row is None else (row[0], row[1], row[2])
