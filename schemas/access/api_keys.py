"""API keys: their text, and what is kept of them."""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.access.callers import NO_LIMITS, Caller, Kind, Limits, Scope
from schemas.access.credentials_in_text import KEY
from schemas.errors import InvalidInputError, NotFoundError
from schemas.where import EVERYTHING, Where, parse_where

ID_CHARACTERS = 8
SECRET_BYTES = 32
MAX_NAME_CHARACTERS = 200
KEY_OWNER = "key:"
"""What the owners begin with that are keys."""
MAX_GRACE_SECONDS = 30 * 86_400
DEFAULT_GRACE_SECONDS = 86_400
_ALPHABET = string.ascii_lowercase + string.digits


class KeyNotFoundError(NotFoundError):
    code = "api_key_not_found"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"API key '{key_id}' not found", id=key_id)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key allows; `where` is the filter as it was given, None for no filter."""

    scopes: frozenset[Scope]
    collections: tuple[str, ...] | None = None
    where: dict[str, Any] | None = None
    limits: Limits = NO_LIMITS

    def __post_init__(self) -> None:
        if self.where is not None and self.scopes != {Scope.READ}:
            raise InvalidInputError(
                "A key with a filter can only read: what it wrote might be outside its filter. Its only scope must be "
                "read",
                code="invalid_field",
                field="scopes",
            )
        if self.collections is not None and Scope.METRICS in self.scopes:
            raise InvalidInputError(
                "The metrics name every collection: a key with the scope metrics has no list of collections",
                code="invalid_field",
                field="collections",
            )
        if self.collections is not None and Scope.ADMIN in self.scopes:
            raise InvalidInputError(
                "An administrator's key is for everything there is: it makes keys for any collection, and erases in "
                "all. Give it the other scopes, or no collections",
                code="invalid_field",
                field="collections",
            )

    def tree(self) -> Where:
        """Return the filter as a tree. Raises InvalidFilterError when it is wrong."""
        return EVERYTHING if self.where is None else parse_where(self.where)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: everything but its secret.

    What is made with it belongs to `owner`, which is the id of the first key in a row of rotations.
    """

    id: str
    name: str
    grant: Grant
    owner: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def has_ended(self, now: datetime) -> bool:
        return self.revoked_at is not None or (self.expires_at is not None and self.expires_at <= now)

    def caller(self) -> Caller:
        """Return whom the key stands for, whether or not it still counts."""
        grant = self.grant
        return Caller(
            id=self.id,
            name=self.name,
            kind=Kind.KEY,
            scopes=grant.scopes,
            owner=KEY_OWNER + self.owner,
            collections=grant.collections,
            where=grant.tree(),
            limits=grant.limits,
            expires_at=self.expires_at,
        )


def new_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARACTERS))


def is_id(text: str) -> bool:
    """Return whether a text could be the id of a key."""
    return len(text) == ID_CHARACTERS and all(each in _ALPHABET for each in text)


def new_text(key_id: str) -> str:
    """Return the text of a new key: `rw_`, its id, and 256 random bits."""
    return f"rw_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def id_of(text: str) -> str | None:
    """Return the id in the text of a key, None when the text has another form."""
    found = KEY.fullmatch(text)
    return None if found is None else found[1]


def digest_of(text: str) -> bytes:
    """Return what is kept of the text of a key. A fast hash is right for a secret of 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
