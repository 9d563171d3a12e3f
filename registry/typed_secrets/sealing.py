"""Seals secrets: encrypted and authenticated by Fernet, together with what each may be used for.

What is sealed says which connection, provider and field it belongs to, and to which scheme, host and port it goes. It
opens for nothing else, so whoever can edit the database cannot send it elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from providers.outbound.addresses import split_url
from providers.outbound.network import DEFAULT_PORTS
from registry.placeholders.configuration_texts import texts
from schemas.configuration import JsonSchema
from schemas.connections import Fault
from schemas.errors import InvalidInputError, RagError
from schemas.json_pointers import unescaped

KEYS = "RAG_SECRET_KEY, or the file secret.key in the data directory"


class UnopenedSecretsError(InvalidInputError):
    """Sealed secrets do not open; `details.errors` lists `{pointer, message}`."""

    code = "invalid_config"

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(
            "; ".join(fault.message for fault in faults),
            errors=[asdict(fault) for fault in faults],
            error_type="invalid_config",
        )


class OtherKeyError(RagError):
    """No key of this service opens what is sealed."""


class OtherDestinationError(RagError):
    """What is sealed was typed for something else."""


_OTHER_KEY = f"was stored under another key than this service has ({KEYS}), or was altered"
_OTHER_DESTINATION = "must be given again: it was typed for another connection or another host"


@dataclass(frozen=True, slots=True)
class Destination:
    """What a secret is typed for. `origins` are the scheme, host and port of every address in the configuration."""

    connection: str
    kind: str
    provider: str
    origins: tuple[str, ...]


def field_at(pointer: str) -> str:
    """Return the name of the field at a JSON Pointer, for people."""
    return unescaped(pointer.removeprefix("/"))


def origins(config: Mapping[str, Any], schema: JsonSchema, leads_to: str | None) -> tuple[str, ...]:
    """Return the origins of a configuration without placeholders, and of the URL that it leads to.

    Raises InvalidInputError when one of its addresses is none.
    """
    urls = [each.text for each in texts(config, schema) if each.field == "address"]
    return tuple(sorted({_origin(url) for url in (*urls, *([] if leads_to is None else [leads_to]))}))


def _origin(url: str) -> str:
    parts = split_url(url)
    host = str(parts.hostname).rstrip(".")
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


class Seal:
    """Seals under the first of the keys that `keys` returns at that moment, and opens under any of them."""

    def __init__(self, keys: Callable[[], Sequence[str]]) -> None:
        self._keys = keys
        self._lock = threading.Lock()
        self._made_from: tuple[str, ...] = ()
        self._made = MultiFernet([Fernet(Fernet.generate_key())])  # without any key nothing opens

    def sealed(self, secret: str, destination: Destination, pointer: str) -> str:
        """Return a secret for one field of one destination, encrypted."""
        content = orjson.dumps({**_envelope(destination, pointer), "secret": secret})
        return self._fernet().encrypt(content).decode()

    def opened(self, token: str, destination: Destination, pointer: str) -> str:
        """Return the secret. Raises OtherKeyError, or OtherDestinationError when it was typed for something else."""
        said = self._content(token)
        secret = said.pop("secret", None)
        if not isinstance(secret, str) or said != _envelope(destination, pointer):
            raise OtherDestinationError(_OTHER_DESTINATION)
        return secret

    def open_all(self, sealed: Mapping[str, str], destination: Destination) -> dict[str, str]:
        """Return the secrets by their pointers. Raises UnopenedSecretsError naming those that do not open."""
        found, wrong = {}, []
        for pointer, token in sealed.items():
            name = field_at(pointer)
            try:
                found[pointer] = self.opened(token, destination, pointer)
            except OtherKeyError:
                wrong.append(Fault(pointer, f"{name} {_OTHER_KEY}"))
            except OtherDestinationError:
                wrong.append(Fault(pointer, f"{name} {_OTHER_DESTINATION}"))
        if wrong:
            raise UnopenedSecretsError(wrong)
        return found

    def opens(self, token: str) -> bool:
        """Return whether one of the keys fits, whatever the secret was typed for."""
        try:
            self._content(token)
        except OtherKeyError:
            return False
        return True

    def renewed(self, token: str) -> str:
        """Return the same encrypted under the first key. Raises OtherKeyError when no key opens it."""
        try:
            return self._fernet().rotate(token).decode()
        except (InvalidToken, ValueError):
            raise OtherKeyError(_OTHER_KEY) from None

    def _content(self, token: str) -> dict[str, Any]:
        try:
            said: dict[str, Any] = orjson.loads(self._fernet().decrypt(token))
        except (InvalidToken, ValueError):  # a token that is edited may not even be ASCII
            raise OtherKeyError(_OTHER_KEY) from None
        return said

    def _fernet(self) -> MultiFernet:
        keys = tuple(self._keys())
        with self._lock:
            if keys and keys != self._made_from:
                self._made, self._made_from = MultiFernet([Fernet(key) for key in keys]), keys
            return self._made


def _envelope(destination: Destination, pointer: str) -> dict[str, Any]:
    return {**asdict(destination), "origins": list(destination.origins), "field": pointer}
