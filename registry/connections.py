"""Named connections: where they are kept, what may be changed about them, and the live provider behind each name."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from providers.base import Provider, ProviderContext
from registry.connection_trial import test_connection
from registry.live_connections import LiveConnection, LiveConnections
from registry.older_spellings import current_spelling
from registry.placeholders.resolving import Placeholders, UnresolvedPlaceholderError, secret_faults
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import ConnectionNotFoundError, StoredConnections, taken
from schemas.configuration import faults, has_placeholder, present, secrets
from schemas.connections import KINDS, Connection, Fault, InvalidConfigurationError, ShownConnection, TestReport
from schemas.errors import ConfigurationError, ConflictError, InvalidInputError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
RESERVED_IDS = ("env-vars", "health", "providers", "test", "validate")
"""Names of the routes below /connections, which no connection may have as its id."""
MAX_NAME_CHARACTERS = 200
MAX_CONFIG_BYTES = 65_536


class Connections:
    """All connections of the service, as one worker sees them.

    Connections made by users are shared through the catalogue's database. `given` are the connections that the
    operator declares and the built-in ones; only the built-in ones are opened with `own_placeholders`.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        stored: StoredConnections,
        placeholders: Placeholders,
        context: ProviderContext,
        given: Sequence[Connection] = (),
        *,
        own_placeholders: Placeholders | None = None,
        test_seconds: float = 10.0,
    ) -> None:
        self.registry = registry
        self.placeholders = placeholders
        self.context = context
        self._stored = stored
        self._own_placeholders = own_placeholders or placeholders
        self._test_seconds = test_seconds
        self._given = {connection.id: connection for connection in given}
        self._live = LiveConnections()

    def all(self) -> list[Connection]:
        """Return the built-in, then the declared, then the stored connections sorted by id."""
        stored = sorted(self._stored.all(), key=lambda connection: connection.id)
        known = [*self._given.values(), *(each for each in stored if each.id not in self._given)]
        self._live.keep({each.version for each in known})
        return known

    def page(self, limit: int | None = None, cursor: str | None = None) -> tuple[list[Connection], str | None]:
        """Return at most `limit` connections after `cursor`, and the cursor of the next page or None at the end.

        A cursor stays valid when connections come and go. Raises InvalidInputError when it is malformed.
        """
        known = self.all()
        if cursor is not None:
            if not _ID.fullmatch(cursor):
                raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor")
            given = list(self._given)
            behind = given[: given.index(cursor) + 1] if cursor in given else given
            known = [each for each in known if each.id not in behind and (cursor in given or each.id > cursor)]
        page = known[:limit]
        return page, page[-1].id if len(page) < len(known) else None

    def find(self, connection_id: str) -> Connection:
        """Return the connection of that id. Raises ConnectionNotFoundError when there is none."""
        found = self._given.get(connection_id) or self._stored.find(connection_id)
        if found is None:
            self._live.forget(connection_id)
            raise ConnectionNotFoundError(connection_id)
        return found

    def create(self, connection: Connection) -> Connection:
        """Store a new connection. Raises ConflictError when the id is taken, InvalidInputError when it is not valid."""
        if connection.id in self._given:
            raise taken(connection.id)
        connection = replace(connection, config=self._as_meant(connection, connection.config))
        check_connection(connection, self.registry, self.placeholders)
        return self._stored.add(connection)

    def change(
        self,
        connection_id: str,
        *,
        config: dict[str, Any],
        kind: str | None = None,
        provider: str | None = None,
        display_name: str | None = None,
    ) -> Connection:
        """Replace a connection's configuration, and its kind, provider or name when given.

        Secrets that are left out stay as long as the provider does; an empty string removes one.
        """
        self._check_changeable(connection_id)

        def change(before: Connection) -> Connection:
            after = Connection(
                before.id,
                kind or before.kind,
                provider or before.provider,
                present(config),
                display_name or before.display_name,
            )
            after = replace(after, config=self._with_kept_secrets(before, after))
            check_connection(after, self.registry, self.placeholders)
            return after

        changed = self._stored.change(connection_id, change)
        self._live.forget(connection_id)
        return changed

    def delete(self, connection_id: str) -> None:
        self._check_changeable(connection_id)
        self._stored.delete(connection_id)
        self._live.forget(connection_id)

    def open(self, connection_id: str, kind: str) -> Provider:
        """Return the provider of the live connection; raises what `live` raises."""
        return self.live(connection_id, kind).provider

    def live(self, connection_id: str, kind: str) -> LiveConnection:
        """Return the open connection of that name; open it again when anything it is made from has changed.

        Only the connection's own configuration decides how it is opened. Raises ConnectionNotFoundError when there is
        none, ConflictError when it is of another kind, and ConfigurationError with the reason when it cannot be used.
        """
        connection = self.find(connection_id)
        if connection.kind != kind:
            raise ConflictError(
                f"Connection '{connection_id}' is of type {connection.kind}, not {kind}",
                code="wrong_connection_type",
                connection=connection_id,
                allowed=[each.id for each in self.all() if each.kind == kind],
            )
        provider = self.registry.provider(kind, connection.provider)
        try:
            resolved, redactor = self._placeholders_of(connection).resolve(
                connection.config, provider.connection_schema(), provider.address
            )
            context = replace(self.context, redactor=redactor)
            return self._live.get(
                connection,
                _digest([connection.generation, connection.provider, resolved]),
                lambda: self.registry.connect(kind, connection.provider, resolved, context),
            )
        except (InvalidConfigurationError, UnresolvedPlaceholderError) as error:
            # The configuration was valid when it was stored: now the environment does not fit it.
            sentence = f"Connection '{connection_id}' cannot be used: {error.message}"
            raise ConfigurationError(sentence, connection=connection_id, **error.details) from None

    def judge(self, kind: str, name: str, config: dict[str, Any]) -> tuple[list[Fault], list[Fault]]:
        """Return (errors in a form, remarks on it); the form may be half filled."""
        entry = self.registry.entry(name, kind)
        if entry.provider is None:
            return [Fault("", f"Provider '{name}' cannot be used here: {entry.reason}")], []
        schema = entry.provider.connection_schema()
        given = self._as_meant(Connection("", kind, name, config), present(config))
        forbidden = self.placeholders.forbidden(given, schema, entry.provider.address)
        wrong = [*faults(given, schema, placeholders=True), *forbidden]
        noted = [*self.placeholders.missing(given, schema), *secret_faults(given, schema)]
        if not entry.viable:
            noted.append(Fault("", f"Provider '{name}' cannot be used here: {entry.reason}"))
        return wrong, noted

    def test(self, kind: str, name: str, config: dict[str, Any], *, for_models: bool = False) -> TestReport:
        """Try a configuration out, stage by stage, or only ask it which models it has.

        Problems of the configuration are in the report, not raised.
        """
        return test_connection(
            self.registry,
            self.placeholders,
            self.context,
            kind,
            name,
            self._as_meant(Connection("", kind, name, config), present(config)),
            seconds=self._test_seconds,
            clock=time.perf_counter,
            for_models=for_models,
        )

    def shown(self, connection: Connection) -> ShownConnection:
        """Return what anybody may see of a connection: of its secrets only which are set and what they refer to."""
        hidden = self._secret_names(connection)
        return ShownConnection(
            connection.id,
            connection.kind,
            connection.provider,
            connection.display_name,
            config={name: value for name, value in connection.config.items() if name not in hidden},
            secrets={
                name: self.placeholders.references(connection.config[name])
                for name in sorted(hidden & connection.config.keys())
            },
            origin=connection.origin,
        )

    def address(self, connection: Connection) -> str | None:
        """Return the URL that a connection leads to, with placeholders as they were written."""
        return self.registry.provider(connection.kind, connection.provider).address(connection.config)

    def redacted(self, text: str) -> str:
        """Remove from a text every value that a placeholder ever stood for in this process."""
        for placeholders in (self.placeholders, self._own_placeholders):
            text = placeholders.said(text)
        return text

    def _placeholders_of(self, connection: Connection) -> Placeholders:
        return self._own_placeholders if connection.origin == "built-in" else self.placeholders

    def close(self) -> None:
        self._live.close()

    def _secret_names(self, connection: Connection) -> frozenset[str]:
        provider = self.registry.entry(connection.provider, connection.kind).provider
        # Nobody knows which fields of a missing provider are secret, so all count as secret.
        return frozenset(connection.config) if provider is None else secrets(provider.connection_schema())

    def _with_kept_secrets(self, before: Connection, after: Connection) -> dict[str, Any]:
        if (before.kind, before.provider) != (after.kind, after.provider):
            return self._as_meant(after, after.config)
        after = replace(after, config=self._as_meant(after, after.config, keeping_empty=True))
        kept = {
            name: before.config[name]
            for name in sorted(self._secret_names(before) & before.config.keys() - after.config.keys())
        }
        if kept and self._origin(before) != self._origin(after):
            # Users may change a connection without knowing its secrets, and must not be able to send them elsewhere.
            sentence = "must be given again: the connection leads to another host now"
            raise InvalidConfigurationError(after.provider, [Fault(f"/{name}", f"{name} {sentence}") for name in kept])
        return self._as_meant(after, kept | after.config)

    def _origin(self, connection: Connection) -> str | None:
        """Return scheme, host and port as they were written; only the names of variables keep their case."""
        address = self.address(connection)
        if address is None:
            return None
        place = "/".join(address.split("/")[:3])
        return place if has_placeholder(place) else place.lower()

    def _as_meant(
        self, connection: Connection, config: dict[str, Any], *, keeping_empty: bool = False
    ) -> dict[str, Any]:
        """Return the configuration in this release's spelling, without empty secrets: an empty one means no secret."""
        entry = self.registry.entry(connection.provider, connection.kind)
        if entry.provider is not None:
            config = current_spelling(config, entry.id, entry.provider.connection_schema())
        hidden = frozenset[str]() if keeping_empty else self._secret_names(connection)
        return {name: value for name, value in config.items() if not (name in hidden and value == "")}

    def _check_changeable(self, connection_id: str) -> None:
        if connection_id in self._given:
            raise ConflictError(
                f"Connection '{connection_id}' is {self._given[connection_id].origin} and cannot be changed here",
                code="connection_read_only",
                connection=connection_id,
            )


def _digest(made_from: Any) -> str:
    return hashlib.sha256(orjson.dumps(made_from, option=orjson.OPT_SORT_KEYS)).hexdigest()


def check_connection(connection: Connection, registry: ProviderRegistry, placeholders: Placeholders) -> None:
    """Raise InvalidInputError when a connection must not be stored: for its names, its configuration or a secret in
    clear."""
    if not _ID.fullmatch(connection.id) or connection.id in RESERVED_IDS:
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
    check_configuration(entry.provider, connection.config, placeholders)


def check_configuration(provider: type[Provider], config: Mapping[str, Any], placeholders: Placeholders) -> None:
    """Raise InvalidConfigurationError naming every field that must not be stored."""
    given, schema = present(config), provider.connection_schema()
    # Comes first: it refuses what is nested too deeply to be written as JSON.
    forbidden = placeholders.forbidden(given, schema, provider.address)
    if len(orjson.dumps(given)) > MAX_CONFIG_BYTES:
        raise InvalidInputError(f"config is larger than {MAX_CONFIG_BYTES} bytes", code="invalid_field", field="config")
    wrong = [
        *faults(given, schema, placeholders=True),
        *forbidden,
        *secret_faults(given, schema),
    ]
    if wrong:
        raise InvalidConfigurationError(provider.id, wrong)
