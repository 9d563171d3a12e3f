"""Folders that other processes keep in sync, as they report them, in the catalogue's database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime

import orjson

from retrieval.clock import z_time
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
from schemas.shared_database import Database, Transaction

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
)


class WatcherNotFoundError(NotFoundError):
    code = "watcher_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Watcher '{name}' not found", watcher=name)


class Watchers:
    """The known watchers; safe for use by several threads.

    The names of each `owner` are separate. `clock` returns seconds since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("watchers", STEPS)

    def report(self, name: str, report: WatcherReport, *, owner: str) -> KnownWatcher:
        """Store a watcher's report.

        Raises ConflictError while another instance reports under the name: two folders of one name would delete each
        other's documents.
        """
        if not is_watcher_name(name):
            raise InvalidInputError(
                f"name must have 1 to {MAX_NAME_CHARACTERS} printable characters without '/'",
                code="invalid_name",
                field="name",
            )
        now_ms = round(self._clock() * 1e3)

        def operation(transaction: Transaction) -> KnownWatcher:
            before = self._find(transaction, name, owner)
            if before and before.report.instance != report.instance and before.state not in (STOPPED, LOST):
                raise ConflictError(
                    f"Watcher '{name}' is running as {before.report.instance}, which reported at {before.reported_at}",
                    code="watcher_is_running",
                    watcher=name,
                    instance=before.report.instance,
                    reported_at=before.reported_at,
                )
            transaction.run("DELETE FROM watchers WHERE owner = ? AND name = ?", (owner, name))
            stored = orjson.dumps(asdict(report)).decode()
            transaction.run("INSERT INTO watchers VALUES (?, ?, ?, ?)", (owner, name, now_ms, stored))
            return self._known(name, now_ms, stored)

        return self._database.commit_quickly(operation)

    def all(self, *, owner: str) -> list[KnownWatcher]:
        """Return the owner's watchers, sorted by name."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT name, reported_at_ms, report FROM watchers WHERE owner = ? ORDER BY name", (owner,)
            )
        return [self._known(*row) for row in rows]

    def one(self, name: str, *, owner: str) -> KnownWatcher:
        """Return a watcher. Raises WatcherNotFoundError when there is none."""
        with self._database.read() as transaction:
            found = self._find(transaction, name, owner)
        if found is None:
            raise WatcherNotFoundError(name)
        return found

    def forget(self, name: str, *, owner: str) -> None:
        """Forget a watcher; a running one is known again after its next report.

        Raises WatcherNotFoundError when there is none.
        """

        def operation(transaction: Transaction) -> None:
            if self._find(transaction, name, owner) is None:
                raise WatcherNotFoundError(name)
            transaction.run("DELETE FROM watchers WHERE owner = ? AND name = ?", (owner, name))

        self._database.commit(operation)

    def _find(self, transaction: Transaction, name: str, owner: str) -> KnownWatcher | None:
        if not is_watcher_name(name):
            return None
        row = transaction.row(
            "SELECT name, reported_at_ms, report FROM watchers WHERE owner = ? AND name = ?", (owner, name)
        )
        return None if row is None else self._known(*row)

    def _known(self, name: str, reported_at_ms: int, stored: str) -> KnownWatcher:
        told = orjson.loads(stored)
        for field in ("failures", "passed_over"):  # the second one is not in reports of releases before 0.3
            told[field] = tuple(FailedFile(**each) for each in told.get(field, ()))
        report = WatcherReport(**told)
        is_late = self._clock() - reported_at_ms / 1e3 > LOST_AFTER_SECONDS
        state = LOST if is_late and report.state != STOPPED else report.state
        return KnownWatcher(name, state, z_time(datetime.fromtimestamp(reported_at_ms / 1e3, UTC)), report)
