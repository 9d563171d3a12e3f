"""Tenants and databases: what collections are in."""

from __future__ import annotations

from schemas.errors import TenantNotFoundError
from schemas.names import DEFAULT_DATABASE, full_name
from schemas.records import Collection, Database
from schemas.storage.outcomes import WriteOutcome
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import databases
from wrapper.catalog.rows import Patterns, collections_in_database
from wrapper.writing import AS_IT_COMES, Writing


class Namespaces:
    def __init__(self, catalog: Catalog, writing: Writing) -> None:
        self._catalog = catalog
        self._writing = writing

    def create_tenant(self, name: str) -> None:
        """Raises ConflictError when there is one of that name."""
        self._writing.commit(
            name, lambda transaction: databases.create_tenant(transaction, name), AS_IT_COMES, creates=True
        )

    def check_tenant(self, name: str) -> None:
        """Raises TenantNotFoundError when there is none of that name."""
        with self._catalog.read() as transaction:
            if not databases.has_tenant(transaction, name):
                raise TenantNotFoundError(name)

    def create_database(self, tenant: str, name: str) -> None:
        """Raises TenantNotFoundError, and ConflictError when the tenant has one of that name."""
        self._writing.commit(
            name, lambda transaction: databases.create_database(transaction, tenant, name), AS_IT_COMES, creates=True
        )

    def database(self, tenant: str, name: str) -> Database:
        """Return a database. Raises DatabaseNotFoundError."""
        with self._catalog.read() as transaction:
            return databases.find_database(transaction, tenant, name)

    def databases(self, tenant: str) -> list[Database]:
        """Return the databases of a tenant by name; none when there is no such tenant."""
        with self._catalog.read() as transaction:
            return databases.databases_of(transaction, tenant)

    def everywhere(self) -> list[Database]:
        """Return the databases of all tenants, by tenant and name."""
        with self._catalog.read() as transaction:
            return databases.all_databases(transaction)

    def delete_database(self, tenant: str, name: str) -> list[str]:
        """Delete a database with its collections, whose full names are returned. Raises DatabaseNotFoundError."""
        doomed: list[str] = self._writing.commit(
            full_name(tenant, name, ""),
            lambda transaction: databases.delete_database(transaction, tenant, name),
            AS_IT_COMES,
            creates=True,
        )
        return doomed

    def collections(
        self, tenant: str, database: str, within: Patterns = None, *, offset: int = 0, limit: int | None = None
    ) -> list[Collection]:
        """Return collections of a database within the patterns, in the order in which they were made."""
        with self._catalog.read() as transaction:
            return collections_in_database(
                transaction, full_name(tenant, database, ""), within, offset=offset, limit=limit
            )

    def reset(self) -> None:
        """Delete all collections, tenants and databases but the default ones."""

        def operation(transaction: Transaction) -> WriteOutcome:
            databases.delete_everything(transaction)
            return WriteOutcome(0, None)

        self._writing.commit(DEFAULT_DATABASE, operation, AS_IT_COMES, creates=True)
