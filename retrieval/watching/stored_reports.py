"""Folders that other processes keep in sync, as they report them, in the catalogue's database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from retrieval.clock import z_time_of_ms
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership, check_meant, ownership_of
from schemas.contracts.watchers import (
    LOST,
    LOST_AFTER_SECONDS,
    MAX_NAME_CHARACTERS,
    STOPPED,
    FailedFile,
    KnownWatcher,
    WatcherReport,
    is_watcher_name,
)
from schemas.errors import ConflictError, InvalidInputError, NotFoundError
from schemas.shared_database import Database, Place, Transaction, of_fields
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Part, Table, having, seen_by

STEPS = (
    (
        """CREATE TABLE watchers (
            name VARCHAR(100) PRIMARY KEY, reported_at_ms BIGINT NOT NULL, report {text} NOT NULL
        )""",
    ),
    (
        "ALTER TABLE watchers RENAME TO watchers_of_all",
        """CREATE TABLE watchers (
            owner VARCHAR(200) NOT NULL, name VARCHAR(100) NOT NULL, reported_at_ms BIGINT NOT NULL,
            report {text} NOT NULL, PRIMARY KEY (owner, name)
        )""",
        "INSERT INTO watchers SELECT '', name, reported_at_ms, report FROM watchers_of_all",
        "DROP TABLE watchers_of_all",
    ),
    (f"ALTER TABLE watchers ADD COLUMN {AUDIENCE_COLUMN}",),
)
MAX_WATCHERS = 1_000
"""The most watchers that one owner may have, those that have stopped included."""


class WatcherNotFoundError(NotFoundError):
    code = "watcher_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Watcher '{name}' not found", watcher=name)


class Watchers(Part):
    """The known watchers, the names of each owner separate."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        place = Place("watchers", "left out of the reports", self.erase)
        super().__init__(database, "watchers", STEPS, place, clock=clock)
        self._table = Table("watchers", self._known, order="name, owner", json=("report",))

    def report(self, name: str, report: WatcherReport, *, asker: Asker) -> KnownWatcher:
        """Store a report of a watcher of the asker's.

        Raises ConflictError while another instance reports under the name, because two folders of one name would delete
        each other's documents, and when the asker has `MAX_WATCHERS` others. Raises DiskFloorError, too.
        """
        if not is_watcher_name(name):
            raise InvalidInputError(
                f"name must have 1 to {MAX_NAME_CHARACTERS} printable characters without '/'",
                code="invalid_name",
                field="name",
            )
        now_ms = self._now_ms()

        def operation(transaction: Transaction) -> KnownWatcher:
            before = self._find(transaction, name, asker, asker.owner)
            if before and before.report.instance != report.instance and before.state not in (STOPPED, LOST):
                raise ConflictError(
                    f"Watcher '{name}' is running as {before.report.instance}, which reported at {before.reported_at}",
                    code="watcher_is_running",
                    watcher=name,
                    instance=before.report.instance,
                    reported_at=before.reported_at,
                )
            if before is None and self._table.count(transaction, having(owner=asker.owner)) >= MAX_WATCHERS:
                raise ConflictError(
                    f"You have {MAX_WATCHERS:,} watchers already, which is as many as one may have: forget one first",
                    code="too_many_watchers",
                    limit=MAX_WATCHERS,
                )
            of, told = asker.made(shared=report.shared), asdict(report)
            key = {"owner": of.owner, "name": name}
            self._table.put(transaction, key, audience=of.audience, reported_at_ms=now_ms, report=told)
            return self._known(of.owner, of.audience, name, now_ms, told)

        return self._database.commit_quickly(operation)

    def all(self, *, asker: Asker) -> list[KnownWatcher]:
        """Return the watchers that the asker sees, sorted by name and owner."""
        return self._rows(self._table, seen_by(asker))

    def one(self, name: str, *, asker: Asker, of_owner: str | None = None) -> KnownWatcher:
        """Return the watcher of that name which `ownership_of` finds. Raises WatcherNotFoundError."""
        with self._database.read() as transaction:
            found = self._find(transaction, name, asker, of_owner)
        if found is None:
            raise WatcherNotFoundError(name)
        return found

    def forget(self, name: str, *, asker: Asker, of_owner: str | None = None) -> None:
        """Forget a watcher; a running one is known again after its next report.

        Raises WatcherNotFoundError when the asker sees none, and OwnedByAnotherError.
        """

        def operation(transaction: Transaction) -> None:
            found = self._find(transaction, name, asker, of_owner)
            if found is None:
                raise WatcherNotFoundError(name)
            check_meant(asker, found.of, of_owner, f"Watcher '{name}'")
            self._table.delete(transaction, having(owner=found.of.owner, name=name))

        self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the reports of an erased user, and the files in reports that are erased documents.

        Return the number of reports that were changed.
        """

        def operation(transaction: Transaction) -> int:
            changed = 0
            for each in self._table.rows(transaction):
                mine, report = having(owner=each.of.owner, name=each.name), each.report
                kept = tuple(failed for failed in report.failures if not _is_of(target, failed.path))
                if each.of.owner == target.owner:
                    self._table.delete(transaction, mine)
                else:  # in any case: reports of earlier builds have more paths, which are not read any more
                    self._table.update(transaction, mine, report=replace(report, failures=kept))
                changed += each.of.owner == target.owner or len(kept) < len(report.failures)
            return changed

        return self._database.freely.commit(operation)

    def _find(self, transaction: Transaction, name: str, asker: Asker, of_owner: str | None) -> KnownWatcher | None:
        if not is_watcher_name(name):
            return None
        of = ownership_of(transaction, "watchers", "name", name, asker, of_owner)
        return None if of is None else self._table.first(transaction, having(owner=of.owner, name=name))

    def _known(self, owner: str, audience: str, name: str, reported_at_ms: int, report: dict[str, Any]) -> KnownWatcher:
        failures = tuple(of_fields(FailedFile, each) for each in report["failures"])
        told = of_fields(WatcherReport, {**report, "failures": failures})
        is_late = self._clock() - reported_at_ms / 1e3 > LOST_AFTER_SECONDS
        state = LOST if is_late and told.state != STOPPED else told.state
        return KnownWatcher(name, Ownership(owner, audience), state, z_time_of_ms(reported_at_ms), told)


def _is_of(target: Target, path: str) -> bool:
    """Return whether a file is one of the erased documents, whose sources begin with the name of the folder."""
    return any(source == path or source.endswith(f"/{path}") for source in target.sources)
