"""Gives the sealed secrets a new key: afterwards the old one opens nothing any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from registry.stored_connections import StoredConnections
from registry.typed_secrets.sealing import OtherKeyError, Seal, field_at
from schemas.connections import Connection


@dataclass(frozen=True, slots=True)
class Resealed:
    """What `seal_again` did. `left` names the secrets that no key opens: they stay as they are."""

    secrets: int
    left: tuple[tuple[str, str], ...]


class TypedSecret(NamedTuple):
    """A sealed secret: whose it is, and whether a key of this service opens it."""

    connection: str
    field: str
    opens: bool


def seal_again(stored: StoredConnections, seal: Seal) -> Resealed:
    """Seal all secrets under the first key of `seal`, in one transaction. Doing it again does no harm."""
    done: list[str] = []
    left: list[tuple[str, str]] = []

    def renewed(connection: Connection) -> dict[str, str]:
        found = {}
        for pointer, token in connection.sealed.items():
            try:
                found[pointer] = seal.renewed(token)
                done.append(pointer)
            except OtherKeyError:
                found[pointer] = token
                left.append((connection.id, field_at(pointer)))
        return found

    stored.seal_again(renewed)
    return Resealed(len(done), tuple(left))


def typed_secrets_of(stored: StoredConnections, seal: Seal) -> Iterator[TypedSecret]:
    """Yield every sealed secret and whether a key of this service opens it."""
    for connection in stored.all():
        for pointer, token in sorted(connection.sealed.items()):
            yield TypedSecret(connection.id, field_at(pointer), seal.opens(token))
