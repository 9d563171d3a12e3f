"""Sessions in the catalogue's database, so that every worker knows which are open."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from retrieval.clock import utc_now
from schemas.access.owners import AUDIENCE_COLUMN, Asker, Ownership
from schemas.contracts.sessions import (
    NoSessionError,
    Session,
    SessionEndedError,
    SessionNotFoundError,
)
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Part, Table, having

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


def _session(id: str, name: str, started_at: str, ended_at: str | None, owner: str, audience: str) -> Session:
    return Session(id, name, started_at, ended_at, Ownership(owner, audience))


SESSIONS = Table("note_sessions", _session)


class Sessions(Part):
    """Keeps sessions for ever, because notes name them. Only its owner adds to one, whoever it is shared with."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        place = Place("sessions", "removed; their notes are among the documents", self.erase, adds_documents=True)
        super().__init__(database, "sessions", STEPS, place)

    def start(self, name: str, *, asker: Asker, shared: bool = False) -> Session:
        """Start a session and return it."""
        session = Session(str(uuid.uuid4()), name, self._time(), of=asker.made(shared=shared))
        self._database.commit(
            lambda transaction: SESSIONS.insert(
                transaction,
                id=session.id,
                number=SESSIONS.next_number(transaction),
                name=name,
                started_at=session.started_at,
                owner=session.of.owner,
                audience=session.of.audience,
            )
        )
        return session

    def open_session(self, session_id: str | None, *, asker: Asker) -> Session:
        """Return the session of that id for the asker to change, without an id the newest open one of their own.

        Raises SessionNotFoundError when they see none of that id, OwnedByAnotherError when they only see it,
        SessionEndedError when it has ended, and NoSessionError when no session is open.
        """
        with self._database.read() as transaction:
            if session_id is not None:
                return _open(transaction, session_id, asker)
            newest = SESSIONS.first(transaction, having(owner=asker.owner, ended_at=None))
        if newest is None:
            raise NoSessionError
        return newest

    def end(self, session_id: str, *, asker: Asker) -> Session:
        """End a session and return it. Raises what `open_session` raises."""
        now = self._time()

        def operation(transaction: Transaction) -> Session:
            session = _open(transaction, session_id, asker)
            SESSIONS.update(transaction, having(id=session_id), ended_at=now)
            return replace(session, ended_at=now)

        return self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Forget the sessions of an erased user, and return their number. Their notes are documents, and those that are
        being made are not stored."""
        return self._erase(lambda transaction: SESSIONS.remove(transaction, having(owner=target.owner)))

    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")


def _open(transaction: Transaction, session_id: str, asker: Asker) -> Session:
    session = SESSIONS.first(transaction, having(id=session_id))
    if session is None or not asker.sees(session.of):
        raise SessionNotFoundError(session_id)
    asker.check_owns(session.of, f"Session '{session_id}'")
    if session.ended_at is not None:
        raise SessionEndedError(session_id, session.ended_at)
    return session
