"""Folders that other processes keep in sync, as they report them, in the catalogue's database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

import orjson

from retrieval.clock import z_time
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
from schemas.shared_database import Database, Transaction, of_fields
from schemas.storage.erasure import Target

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
_COLUMNS = "SELECT owner, audience, name, reported_at_ms, report FROM watchers"


class WatcherNotFoundError(NotFoundError):
    code = "watcher_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Watcher '{name}' not found", watcher=name)


class Watchers:
    """The known watchers; safe for use by several threads.

    The names of each owner are separate. `clock` returns seconds since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("watchers", STEPS)

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
        now_ms, stored = round(self._clock() * 1e3), orjson.dumps(asdict(report)).decode()

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
            if before is None:
                _check_room(transaction, asker)
            transaction.run("DELETE FROM watchers WHERE owner = ? AND name = ?", (asker.owner, name))
            of = asker.made(shared=report.shared)
            values = (of.owner, name, now_ms, stored, of.audience)
            transaction.run("INSERT INTO watchers VALUES (?, ?, ?, ?, ?)", values)
            return self._known(of.owner, of.audience, name, now_ms, stored)

        return self._database.commit_quickly(operation)

    def all(self, *, asker: Asker) -> list[KnownWatcher]:
        """Return the watchers that the asker sees, sorted by name and owner."""
        condition, parameters = asker.seen()
        with self._database.read() as transaction:
            rows = transaction.rows(f"{_COLUMNS} WHERE {condition} ORDER BY name, owner", parameters)
        return [self._known(*row) for row in rows]

    def of_all(self) -> list[KnownWatcher]:
        """Return everybody's watchers."""
        with self._database.read() as transaction:
            rows = transaction.rows(_COLUMNS)
        return [self._known(*row) for row in rows]

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
            transaction.run("DELETE FROM watchers WHERE owner = ? AND name = ?", (found.of.owner, name))

        self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the reports of an erased user, and the files in reports that are erased documents.

        Return the number of reports that were changed.
        """

        def operation(transaction: Transaction) -> int:
            rows = transaction.rows("SELECT owner, name, report FROM watchers")
            changed = 0
            for owner, name, stored in rows:
                told = orjson.loads(stored)
                kept = [each for each in told["failures"] if not _is_of(target, each["path"])]
                if owner == target.owner:
                    transaction.run("DELETE FROM watchers WHERE owner = ? AND name = ?", (owner, name))
                elif len(kept) < len(told["failures"]) or told.get("passed_over"):  # of an earlier release
                    after = orjson.dumps({**told, "failures": kept, "passed_over": []}).decode()
                    transaction.run("UPDATE watchers SET report = ? WHERE owner = ? AND name = ?", (after, owner, name))
                else:
                    continue
                changed += 1
            return changed

        return self._database.freely.commit(operation)

    def _find(self, transaction: Transaction, name: str, asker: Asker, of_owner: str | None) -> KnownWatcher | None:
        if not is_watcher_name(name):
            return None
        of = ownership_of(transaction, "watchers", "name", name, asker, of_owner)
        row = None if of is None else transaction.row(f"{_COLUMNS} WHERE owner = ? AND name = ?", (of.owner, name))
        return None if row is None else self._known(*row)

    def _known(self, owner: str, audience: str, name: str, reported_at_ms: int, stored: str) -> KnownWatcher:
        told = orjson.loads(stored)
        told["failures"] = tuple(of_fields(FailedFile, each) for each in told["failures"])
        report = of_fields(WatcherReport, told)
        is_late = self._clock() - reported_at_ms / 1e3 > LOST_AFTER_SECONDS
        state = LOST if is_late and report.state != STOPPED else report.state
        reported_at = z_time(datetime.fromtimestamp(reported_at_ms / 1e3, UTC))
        return KnownWatcher(name, Ownership(owner, audience), state, reported_at, report)


def _check_room(transaction: Transaction, asker: Asker) -> None:
    row = transaction.row("SELECT count(*) FROM watchers WHERE owner = ?", (asker.owner,))
    if row is not None and row[0] >= MAX_WATCHERS:
        raise ConflictError(
            f"You have {row[0]:,} watchers already, which is as many as one may have: forget one first",
            code="too_many_watchers",
            limit=MAX_WATCHERS,
        )


def _is_of(target: Target, path: str) -> bool:
    """Return whether a file is one of the erased documents, whose sources begin with the name of the folder."""
    return any(source == path or source.endswith(f"/{path}") for source in target.sources)
