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
from schemas.storage.small_tables import Condition, Part, Table, having

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


SESSIONS = Table("console_sessions", lambda sealed_key: str(sealed_key), order="ends_at_ms DESC")


class Sessions(Part):
    """The sessions of one service, shared by its workers. `clock` returns seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "console sessions", STEPS, clock=clock)

    def find(self, session_id: str | None) -> Session:
        """Return the session that a cookie names, a visitor's who has not signed in where it names none, or there is no
        cookie."""
        if session_id is None:
            return Session(secrets.token_urlsafe(ID_BYTES))
        lasts = having(digest=_digest("session", session_id)) & Condition("ends_at_ms > ?", (self._now_ms(),))
        with self._database.read() as transaction:
            sealed = SESSIONS.first(transaction, lasts)
        try:
            return Session(session_id, None if sealed is None else _seal(session_id).decrypt(sealed).decode())
        except InvalidToken:  # somebody has edited the database
            return Session(session_id)

    def sign_in(self, key: str, holder: str) -> Session:
        """Begin a session with a key that was found to count; `holder` is the id of whom it stands for. Their oldest
        sessions beyond `MOST_SESSIONS` end. Raises DiskFloorError."""
        session, now_ms = Session(secrets.token_urlsafe(ID_BYTES), key), self._now_ms()
        of_holder = _digest("holder", holder)

        def operation(transaction: Transaction) -> None:
            SESSIONS.delete(transaction, Condition("ends_at_ms <= ?", (now_ms,)))
            SESSIONS.keep_first(transaction, MOST_SESSIONS - 1, having(holder=of_holder), key="digest")
            SESSIONS.insert(
                transaction,
                digest=_digest("session", session.id),
                sealed_key=_seal(session.id).encrypt(key.encode()).decode(),
                ends_at_ms=now_ms + round(SESSION_SECONDS * 1e3),
                holder=of_holder,
            )

        self._database.commit(operation)
        return session

    def sign_out(self, session: Session) -> None:
        """End a session, also in browsers that still have its cookie."""
        ended = having(digest=_digest("session", session.id))
        self._database.freely.commit(lambda transaction: SESSIONS.delete(transaction, ended))


def _digest(purpose: str, session_id: str) -> str:
    return hashlib.sha256(f"{purpose}\0{session_id}".encode()).hexdigest()


def _seal(session_id: str) -> Fernet:
    # The id is as random as a key must be.
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(f"seal\0{session_id}".encode()).digest()))
