"""Sessions in the catalogue's database, so that every worker knows which are open."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from retrieval.clock import utc_now
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership
from schemas.contracts.sessions import (
    NoSessionError,
    Session,
    SessionEndedError,
    SessionNotFoundError,
)
from schemas.shared_database import Database, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import count_erasure, erasures

STEPS = (
    (
        """CREATE TABLE note_sessions (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, name {text} NOT NULL,
            started_at VARCHAR(40) NOT NULL, ended_at VARCHAR(40)
        )""",
        "CREATE UNIQUE INDEX note_sessions_in_order ON note_sessions (number)",
    ),
    ("ALTER TABLE note_sessions ADD COLUMN owner VARCHAR(200) NOT NULL DEFAULT ''",),
    (f"ALTER TABLE note_sessions ADD COLUMN {AUDIENCE_COLUMN}",),
)
_COLUMNS = "SELECT id, name, started_at, ended_at, owner, audience FROM note_sessions"


class Sessions:
    """Keeps sessions for ever, because notes name them. Only its owner adds to one, whoever it is shared with."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        database.open_part("sessions", STEPS)

    def erasures(self) -> int:
        """Return the count of erasures, for a note that is about to be made."""
        with self._database.read() as transaction:
            return erasures(transaction)

    def start(self, name: str, *, asker: Asker, shared: bool = False) -> Session:
        """Start a session and return it."""
        session = Session(str(uuid.uuid4()), name, self._now(), of=asker.made(shared=shared))

        def operation(transaction: Transaction) -> None:
            row = transaction.row("SELECT MAX(number) FROM note_sessions")
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            of = session.of
            values = (session.id, number, session.name, session.started_at, None, of.owner, of.audience)
            transaction.run("INSERT INTO note_sessions VALUES (?, ?, ?, ?, ?, ?, ?)", values)

        self._database.commit(operation)
        return session

    def open_session(self, session_id: str | None, *, asker: Asker) -> Session:
        """Return the session of that id for the asker to change, without an id the newest open one of their own.

        Raises SessionNotFoundError when they see none of that id, OwnedByAnotherError when they only see it,
        SessionEndedError when it has ended, and NoSessionError when no session is open.
        """
        with self._database.read() as transaction:
            if session_id is None:
                row = transaction.row(
                    f"{_COLUMNS} WHERE owner = ? AND ended_at IS NULL ORDER BY number DESC LIMIT 1", (asker.owner,)
                )
                if row is None:
                    raise NoSessionError
                return _session(row)
            return _open(transaction, session_id, asker)

    def end(self, session_id: str, *, asker: Asker) -> Session:
        """End a session and return it. Raises what `open_session` raises."""
        now = self._now()

        def operation(transaction: Transaction) -> Session:
            session = _open(transaction, session_id, asker)
            transaction.run("UPDATE note_sessions SET ended_at = ? WHERE id = ?", (now, session_id))
            return replace(session, ended_at=now)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the sessions of an erased user, and return their number. Their notes are documents, and those that are
        being made are not stored."""

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            row = transaction.row("SELECT count(*) FROM note_sessions WHERE owner = ?", (target.owner,))
            transaction.run("DELETE FROM note_sessions WHERE owner = ?", (target.owner,))
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _now(self) -> str:
        return self._clock().isoformat(timespec="milliseconds")


def _open(transaction: Transaction, session_id: str, asker: Asker) -> Session:
    row = transaction.row(f"{_COLUMNS} WHERE id = ?", (session_id,))
    if row is None or not asker.sees((session := _session(row)).of):
        raise SessionNotFoundError(session_id)
    asker.check_owns(session.of, f"Session '{session_id}'")
    if session.ended_at is not None:
        raise SessionEndedError(session_id, session.ended_at)
    return session


def _session(row: tuple[Any, ...]) -> Session:
    session_id, name, started_at, ended_at, owner, audience = row
    return Session(session_id, name, started_at, ended_at, Ownership(owner, audience))
