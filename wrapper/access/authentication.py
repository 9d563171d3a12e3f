"""Who asks: from the headers of a request to a caller."""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

import structlog
from cachetools import LRUCache

from schemas.access.api_keys import ApiKey, digest_of, id_of
from schemas.access.callers import ANYBODY, SKEW_SECONDS, Caller, Kind, Scope
from schemas.access.narrowing import narrowed
from schemas.access.owners import OPEN as OPEN_OWNER
from schemas.errors import RagError, UnauthorizedError
from schemas.settings import OPEN, AccessSettings
from wrapper.access.configured_key import bootstrap_key, is_loopback, relies_on_keys
from wrapper.access.presented_keys import presented_key
from wrapper.access.stored_keys import StoredKeys, utc_now

log = structlog.get_logger(__name__)

FRESH_SECONDS, STALE_SECONDS = 1.0, 1.8
"""How long a process goes by what it knows of keys before it asks whether any has changed, and how long it goes on
while one of its threads is asking."""
MOST_SECONDS_WITHOUT_CATALOGUE = 60.0
"""How long a process goes by what it knows while the catalogue does not answer: what needs no catalogue goes on."""
MAX_REMEMBERED = 10_000
MISSING = "This needs an API key: send it as 'Authorization: Bearer …'"


class TokenVerifier(Protocol):
    """Checks the tokens of an identity provider."""

    def verify(self, token: str) -> Caller:
        """Return whom a token stands for. Raises UnauthorizedError when it does not count."""


class KeyMemory:
    """What one process remembers of the stored keys, for `FRESH_SECONDS` without asking whether it still holds."""

    def __init__(self, stored: StoredKeys, clock: Callable[[], float] = time.monotonic) -> None:
        self._stored = stored
        self._clock = clock
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._known: LRUCache[str, tuple[ApiKey, bytes, Caller] | None] = LRUCache(MAX_REMEMBERED)
        self._number: int | None = None
        self._any = False
        self._checked_at = float("-inf")

    def has_any(self) -> bool:
        """Return whether there was ever a key."""
        self.refresh()
        return self._any

    def find(self, key_id: str) -> tuple[ApiKey, bytes, Caller] | None:
        """Return (a key, the digest of its text, whom it stands for), None when there is none of that id."""
        self.refresh()
        with self._lock:
            if key_id in self._known:
                return self._known[key_id]
            number = self._number
        row = self._stored.find(key_id)
        found = None if row is None else (*row, row[0].caller())
        with self._lock:
            if self._number == number:  # else a change came between, and what was read may be older
                self._known[key_id] = found
        return found

    def refresh(self, *, at_once: bool = False) -> None:
        """Ask whether what is known still holds, `at_once` or when it is not fresh."""
        age = self._clock() - self._checked_at
        if (not at_once and age < FRESH_SECONDS) or not self._asking.acquire(blocking=at_once or age >= STALE_SECONDS):
            return
        try:
            began = self._clock()
            if not at_once and began - self._checked_at < FRESH_SECONDS:
                return  # another thread has just asked
            try:
                number, self._any = self._stored.state()
            except RagError:
                # Without the catalogue nothing can be read with a key that has ended meanwhile.
                if at_once or age > MOST_SECONDS_WITHOUT_CATALOGUE:
                    raise
                return
            with self._lock:
                if number != self._number:
                    self._known.clear()
                    self._number = number
            self._checked_at = began
        finally:
            self._asking.release()


class Authentication:
    """Turns requests into callers.

    Without a mode in the settings, no key is needed while the service listens on loopback only and there was never a
    key.
    """

    def __init__(
        self,
        settings: AccessSettings,
        host: str,
        stored: StoredKeys,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
        *,
        service_id: str = "",
    ) -> None:
        self.stored = stored
        self._service_id = service_id
        self.verifier: TokenVerifier | None = None
        """Set by the layer that knows an identity provider."""
        self._settings = settings
        self._is_loopback = is_loopback(host)
        self._memory = KeyMemory(stored, clock)
        self._now = now
        bootstrap = bootstrap_key(settings)
        self._bootstrap = digest_of(bootstrap) if bootstrap else None
        self._uses: dict[str, datetime] = {}

    def is_open(self) -> bool:
        """Return whether anybody may do anything."""
        if self._settings.access:
            return self._settings.access == OPEN
        return self.relies_on_keys() and self._is_loopback and not self._memory.has_any()

    def relies_on_keys(self) -> bool:
        """Return whether only stored keys let anybody in once there is one."""
        return relies_on_keys(self._settings, has_users=self.verifier is not None)

    def caller_of(self, header: Callable[[str], str]) -> Caller:
        """Return whose key it is, by the headers that `header` returns, empty where there is none.

        Raises UnauthorizedError when that is unknown although it has to be known.
        """
        if self.is_open() and not self._shows_stored_key(header):
            return ANYBODY
        return self.caller_with(presented_key(header))

    def _shows_stored_key(self, header: Callable[[str], str]) -> bool:
        """Return whether a request to an open service carries a key of it: the first one may be newer than what this
        process knows of keys, and what is done with it is its owner's."""
        if self._settings.access == OPEN:
            return False
        try:
            key_id = id_of(presented_key(header) or "")
            return key_id is not None and self._memory.find(key_id) is not None
        except RagError:
            return False

    def within(self, caller: Caller, view: str) -> Caller:
        """Return who asks, with a caller's key and `view` in the header `RAG-Within`, empty where there is none.

        Raises InvalidInputError when it cannot be read.
        """
        return narrowed(caller, view, self._service_id) if view else caller

    def caller_with(self, key: str | None) -> Caller:
        """Return for whom a key stands. Raises UnauthorizedError when there is none, or it does not count."""
        if key is None:
            raise UnauthorizedError(MISSING, code="key_missing")
        digest = digest_of(key)
        if self._bootstrap is not None and hmac.compare_digest(digest, self._bootstrap):
            return Caller("bootstrap", "administrator", Kind.BOOTSTRAP, frozenset({Scope.ADMIN}), OPEN_OWNER)
        key_id = id_of(key)
        if key_id is None:
            if self.verifier is not None and key.count(".") >= 2:
                return self.verifier.verify(key)
            raise UnauthorizedError("The API key is unknown: it has not the form of a key of this service")
        found = self._memory.find(key_id)
        # Compared also when there is none of that id, so that the time tells nothing.
        if not hmac.compare_digest(digest, b"\0" * len(digest) if found is None else found[1]) or found is None:
            raise UnauthorizedError(f"The API key rw_{key_id} is unknown", id=key_id)
        known, _, caller = found
        self._check(known)
        self._uses[key_id] = self._now()
        return caller

    def caller_of_owner(self, first_id: str) -> Caller:
        """Return for whom the newest key works that counts and was made of that first key by rotation.

        Raises UnauthorizedError when none of them counts any more.
        """
        keys = self.stored.of_owner(first_id)
        for key in keys:
            if not key.has_ended(self._now()):
                return key.caller()
        for key in keys:
            self._check(key)
        raise UnauthorizedError(f"The API key rw_{first_id} is unknown")

    def still(self, caller: Caller, view: str = "", *, at_once: bool = False) -> Caller:
        """Return a caller who was let in with `view` in the header `RAG-Within`, with the limits of now; `at_once` by
        what the catalogue says, not by what this process knows.

        Raises UnauthorizedError when their key or token has ended since, the key has other rights by now, or they have
        none and, `at_once`, one is needed by now.
        """
        if at_once:
            self._memory.refresh(at_once=True)
            if caller.kind is Kind.OPEN and not self.is_open():
                raise UnauthorizedError(MISSING, code="key_missing")
        if caller.kind is Kind.KEY:
            # Who asks an open service within a view has no key that could end.
            if (found := self._memory.find(caller.id)) is not None:
                key, _, now = found
                self._check(key)
                now = self.within(now, view)
                if _rights(now) != _rights(caller):
                    raise UnauthorizedError(f"The API key rw_{key.id} has other rights by now", id=key.id)
                return now
        elif caller.expires_at is not None and caller.expires_at + timedelta(seconds=SKEW_SECONDS) <= self._now():
            raise UnauthorizedError("The access token has expired", code="key_expired")
        return caller

    def note_uses(self) -> None:
        """Write down which keys were used since the last time."""
        uses, self._uses = self._uses, {}
        if uses:
            try:
                self.stored.note_uses(uses)
            except RagError as error:
                log.warning("the last use of keys could not be noted", reason=error.message)

    def _check(self, key: ApiKey) -> None:
        if key.revoked_at is not None:
            raise UnauthorizedError(f"The API key rw_{key.id} was revoked", code="key_revoked", id=key.id)
        if key.expires_at is not None and key.expires_at <= self._now():
            day = key.expires_at.strftime("%Y-%m-%d %H:%M")
            raise UnauthorizedError(f"The API key rw_{key.id} expired on {day} UTC", code="key_expired", id=key.id)


def _rights(caller: Caller) -> tuple[object, ...]:
    # By its text: in Python, the filters for 1 and for true are equal.
    return caller.scopes, caller.collections, repr(caller.where)
