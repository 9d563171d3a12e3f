"""Says what keeps a connection from being stored: its names, its configuration, or a secret in clear."""

from __future__ import annotations

import re

import orjson

from providers.base import Provider
from registry.placeholders.resolving import Placeholders
from registry.placeholders.secret_fields import secret_faults, with_secrets
from registry.provider_registry import ProviderRegistry
from schemas.configuration import faults, tidied
from schemas.connections import KINDS, Connection, InvalidConfigurationError
from schemas.errors import InvalidInputError

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED_IDS = ("env-vars", "health", "providers", "test", "validate")
"""Names of the routes below /connections, which no connection may have as its id."""
MAX_NAME_CHARACTERS = 200
MAX_CONFIG_BYTES = 65_536
STAND_IN = "${SEALED}"
"""What stands for a sealed secret when a configuration is checked."""


def check_connection(
    connection: Connection, registry: ProviderRegistry, placeholders: Placeholders, *, typed: bool = False
) -> None:
    """Raise InvalidInputError when a connection must not be stored: for its names, its configuration or a secret in
    clear, unless `typed` ones can be sealed."""
    if not ID.fullmatch(connection.id) or connection.id in RESERVED_IDS:
        raise InvalidInputError(
            "id must have 1-64 characters from [a-zA-Z0-9._-], start with a letter or digit and not be one of "
            + ", ".join(RESERVED_IDS),
            code="invalid_field",
            field="id",
        )
    if connection.kind not in KINDS:
        raise InvalidInputError(
            f"type must be one of {', '.join(KINDS)}", code="invalid_field", field="type", allowed=list(KINDS)
        )
    name = connection.display_name
    if name is not None and not (1 <= len(name) <= MAX_NAME_CHARACTERS and name.isprintable()):
        raise InvalidInputError(
            f"display_name must have 1 to {MAX_NAME_CHARACTERS} printable characters",
            code="invalid_field",
            field="display_name",
        )
    entry = registry.entry(connection.provider, connection.kind)
    if entry.provider is None:
        raise InvalidInputError(
            f"Provider '{entry.id}' cannot be used here: {entry.reason}", code="provider_not_viable", field="provider"
        )
    check_configuration(entry.provider, connection, placeholders, typed=typed)


def check_configuration(
    provider: type[Provider], connection: Connection, placeholders: Placeholders, *, typed: bool
) -> None:
    """Raise InvalidConfigurationError naming every field that must not be stored."""
    given, schema = tidied(connection.config), provider.connection_schema()
    # Comes first: it refuses what is nested too deeply to be written as JSON.
    forbidden = placeholders.forbidden(given, schema, provider.address)
    if len(orjson.dumps(given)) > MAX_CONFIG_BYTES:
        raise InvalidInputError(f"config is larger than {MAX_CONFIG_BYTES} bytes", code="invalid_field", field="config")
    whole = with_secrets(given, dict.fromkeys(connection.sealed, STAND_IN))
    wrong = [
        *faults(whole, schema, placeholders=True),
        *forbidden,
        *secret_faults(given, schema, typed=typed),
    ]
    if wrong:
        raise InvalidConfigurationError(provider.id, wrong)
