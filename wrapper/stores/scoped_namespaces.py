"""Tenants and databases, for the current caller.

A key for all collections is for all tenants and databases. Another one knows those in which a collection may be its
own, and the default ones, and makes and deletes only databases that are its own as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemas.access.callers import Caller, acting_still, current
from schemas.errors import DatabaseForbiddenError, DatabaseNotFoundError, TenantNotFoundError
from schemas.names import DEFAULT_TENANT, full_name, is_pattern
from schemas.records import Collection, Database
from wrapper.audit import noted
from wrapper.stores.namespaces import Namespaces
from wrapper.stores.reach import Reach


class ScopedNamespaces:
    """The methods of `Namespaces`. `shown` returns collections as a caller sees them."""

    def __init__(
        self,
        namespaces: Namespaces,
        reach: Reach,
        shown: Callable[[Caller, Sequence[Collection]], list[Collection]],
    ) -> None:
        self._namespaces = namespaces
        self._reach = reach
        self._shown = shown

    @acting_still()
    def create_tenant(self, name: str) -> None:
        """Raises DatabaseForbiddenError unless all that the tenant may ever have is the caller's."""
        self._check_owning(f"/{name}/", name)
        self._namespaces.create_tenant(name)

    def check_tenant(self, name: str) -> None:
        if name != DEFAULT_TENANT and not current().knows_some(f"/{name}/"):
            raise TenantNotFoundError(name)
        self._namespaces.check_tenant(name)

    @acting_still()
    def create_database(self, tenant: str, name: str) -> None:
        """Raises DatabaseForbiddenError unless all that the database may ever have is the caller's."""
        self._check_owning(f"/{tenant}/{name}/", name)
        self._namespaces.create_database(tenant, name)

    def database(self, tenant: str, name: str) -> Database:
        found = self._namespaces.database(tenant, name)
        if not self._is_known(found):
            raise DatabaseNotFoundError(tenant, name)
        return found

    def databases(self, tenant: str) -> list[Database]:
        return [each for each in self._namespaces.databases(tenant) if self._is_known(each)]

    def everywhere(self) -> list[Database]:
        return [each for each in self._namespaces.everywhere() if self._is_known(each)]

    @acting_still()
    def delete_database(self, tenant: str, name: str) -> list[str]:
        self.database(tenant, name)
        self._check_owning(full_name(tenant, name, "") or "", name)
        return self._namespaces.delete_database(tenant, name)

    def collections(self, tenant: str, database: str, *, offset: int = 0, limit: int | None = None) -> list[Collection]:
        caller = current()
        found = self._namespaces.collections(tenant, database, caller.collections, offset=offset, limit=limit)
        return self._shown(caller, found)

    @acting_still()
    def reset(self) -> None:
        """Raises DatabaseForbiddenError unless everything is the caller's."""
        self._check_owning("", "everything")
        self._namespaces.reset()

    def _is_known(self, database: Database) -> bool:
        beginning = full_name(database.tenant, database.name, "")
        return not beginning or current().knows_some(beginning)

    def _check_owning(self, beginning: str, name: str) -> None:
        caller = current()
        noted.note_collection(beginning or name)
        patterns = caller.collections
        owns = patterns is None or any(is_pattern(each) and beginning.startswith(each[:-1]) for each in patterns)
        if caller.is_filtered or not owns:
            raise DatabaseForbiddenError(name)
