"""Sessions of the console: who has signed in with which key, until they sign out or the session ends.

A session is known by a random text in its cookie. The database has the digest of that text, and the key encrypted
under it, and a digest of whose session it is: whoever reads the database finds neither sessions nor keys.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken

from schemas.shared_database import Database, Transaction

STEPS = (
    (
        """CREATE TABLE console_sessions (
            digest VARCHAR(64) PRIMARY KEY, sealed_key {text} NOT NULL, ends_at_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX console_sessions_by_end ON console_sessions (ends_at_ms)",
    ),
    (
        "ALTER TABLE console_sessions ADD COLUMN holder VARCHAR(64) NOT NULL DEFAULT ''",
        "CREATE INDEX console_sessions_by_holder ON console_sessions (holder, ends_at_ms)",
    ),
)
SESSION_SECONDS = 12 * 3600.0
"""How long a session lasts, whether it is used or not."""
MOST_SESSIONS = 20
"""The sessions of one key that last: with one more, the oldest ends."""
ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """A visit to the console. `id` is a secret between the service and the cookie; `key` is what the visitor has signed
    in with, None while nobody has."""

    id: str
    key: str | None = None

    @property
    def form_token(self) -> str:
        """The text that forms and scripts of this session's pages send along, which no other site can know."""
        return _digest("form", self.id)


class Sessions:
    """The sessions of one service, shared by its workers. `clock` returns seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("console sessions", STEPS)

    def find(self, session_id: str) -> Session:
        """Return the session that a cookie names, that of a visitor who has not signed in where it names none."""
        with self._database.read() as transaction:
            row = transaction.row(
                "SELECT sealed_key FROM console_sessions WHERE digest = ? AND ends_at_ms > ?",
                (_digest("session", session_id), self._now_ms()),
            )
        try:
            return Session(session_id, None if row is None else _seal(session_id).decrypt(row[0]).decode())
        except InvalidToken:  # somebody has edited the database
            return Session(session_id)

    def sign_in(self, key: str, holder: str) -> Session:
        """Begin a session with a key that was found to count; `holder` is the id of whom it stands for. Their oldest
        sessions beyond `MOST_SESSIONS` end. Raises DiskFloorError."""
        session, now_ms = Session(secrets.token_urlsafe(ID_BYTES), key), self._now_ms()
        sealed = _seal(session.id).encrypt(key.encode()).decode()
        of_holder = _digest("holder", holder)
        values = (_digest("session", session.id), sealed, now_ms + round(SESSION_SECONDS * 1e3), of_holder)

        def operation(transaction: Transaction) -> None:
            transaction.run("DELETE FROM console_sessions WHERE ends_at_ms <= ?", (now_ms,))
            others = transaction.rows(
                "SELECT digest FROM console_sessions WHERE holder = ? ORDER BY ends_at_ms DESC", (of_holder,)
            )
            for row in others[MOST_SESSIONS - 1 :]:
                transaction.run("DELETE FROM console_sessions WHERE digest = ?", row)
            transaction.run(
                "INSERT INTO console_sessions (digest, sealed_key, ends_at_ms, holder) VALUES (?, ?, ?, ?)", values
            )

        self._database.commit(operation)
        return session

    def sign_out(self, session: Session) -> None:
        """End a session, also in browsers that still have its cookie."""

        def operation(transaction: Transaction) -> None:
            transaction.run("DELETE FROM console_sessions WHERE digest = ?", (_digest("session", session.id),))

        self._database.freely.commit(operation)

    def _now_ms(self) -> int:
        return round(self._clock() * 1e3)


def visitor() -> Session:
    """Return a new session of somebody who has not signed in."""
    return Session(secrets.token_urlsafe(ID_BYTES))


def _digest(purpose: str, session_id: str) -> str:
    return hashlib.sha256(f"{purpose}\0{session_id}".encode()).hexdigest()


def _seal(session_id: str) -> Fernet:
    # The id is as random as a key must be.
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(f"seal\0{session_id}".encode()).digest()))
