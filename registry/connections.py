"""Named connections: where they are kept, what may be changed about them, and the live provider behind each name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from providers.base import Provider, ProviderContext
from providers.outbound.redaction import Redactor
from registry.connection_checks import ID, check_connection
from registry.live_connections import LiveConnection, LiveConnections
from registry.older_spellings import current_spelling
from registry.placeholders.resolving import Placeholders, Resolved, UnresolvedPlaceholderError
from registry.placeholders.secret_fields import (
    leaves_out,
    typed_secrets,
    with_secrets,
    without_secrets,
)
from registry.provider_registry import ProviderNotFoundError, ProviderRegistry
from registry.stored_connections import CHAT_TYPE, ConnectionNotFoundError, StoredConnections, taken
from registry.typed_secrets.sealing import Destination, Seal, UnopenedSecretsError, field_at, origins
from schemas.access.callers import Caller, Scope, current
from schemas.access.owners import EVERYTHING_SEEN, OPEN, Asker, Ownership
from schemas.configuration import folders, has_placeholder, secrets, tidied
from schemas.connections import Connection, Fault, InvalidConfigurationError, ShownConnection
from schemas.errors import ConfigurationError, ConflictError, InvalidInputError, RagError, ScopeMissingError

CHAT = "chat"
"""The connection that answers while none is marked: the one that the operator's settings describe, where they do."""
NO_CHAT_MODEL = (
    "No chat model is configured: save a connection of type llm, in the console or by POST /api/connections, and use "
    "it for answers (chat_model), or set RAG_CHAT_PROVIDER"
)
EVERYBODYS = Ownership(OPEN, EVERYTHING_SEEN)
"""The ownership of the connections that nobody made over the API."""


class Connections:
    """All connections of the service, as one worker sees them and the current caller may use them.

    What others have made and not shared does not exist for a caller, except that its id is taken.
    Connections made by users are shared through the catalogue's database. `given` are the connections that the
    operator declares and the built-in ones; only the built-in ones are opened with `own_placeholders`. Secrets that
    users type are kept under `seal`; without one they are refused.
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
        seal: Seal | None = None,
    ) -> None:
        self.registry = registry
        self.placeholders = placeholders
        self.context = context
        self._stored = stored
        self._own_placeholders = own_placeholders or placeholders
        self.takes_typed = seal is not None
        self._seal = seal or Seal(tuple)
        self._given = {connection.id: connection for connection in given}
        self._live = LiveConnections()

    def all(self) -> list[Connection]:
        """Return the built-in, then the declared, then the stored connections sorted by id."""
        stored = sorted(self._stored.all(), key=lambda connection: connection.id)
        known = [*self._given.values(), *(each for each in stored if each.id not in self._given)]
        self._live.keep({each.version for each in known})
        asker, chat = current().asker, self.chat_model()
        return [each for each in known if each.id in self._given or each.id == chat or _sees(asker, each)]

    def page(self, limit: int | None = None, cursor: str | None = None) -> tuple[list[Connection], str | None]:
        """Return at most `limit` connections after `cursor`, and the cursor of the next page or None at the end.

        A cursor stays valid when connections come and go. Raises InvalidInputError when it is malformed.
        """
        known = self.all()
        if cursor is not None:
            if not ID.fullmatch(cursor):
                raise InvalidInputError("Invalid cursor", code="invalid_cursor", field="cursor")
            given = list(self._given)
            behind = given[: given.index(cursor) + 1] if cursor in given else given
            known = [each for each in known if each.id not in behind and (cursor in given or each.id > cursor)]
        page = known[:limit]
        return page, page[-1].id if len(page) < len(known) else None

    def find(self, connection_id: str, *, field: str | None = None) -> Connection:
        """Return the connection of that id. Raises ConnectionNotFoundError, with the `field` that names it, when there
        is none."""
        if connection_id in self._given:
            return self._given[connection_id]
        found = self._stored.find(connection_id)
        if found is None:
            self._live.forget(connection_id)
        if found is None or not (_sees(current().asker, found) or connection_id == self.chat_model()):
            raise ConnectionNotFoundError(connection_id, field)
        return found

    def open_chat(self) -> tuple[str, Provider]:
        """Return the id of the service's chat model, and its provider. Raises ConfigurationError when there is none,
        and what `live` raises."""
        chat = self.chat_model()
        if chat is None:
            raise ConfigurationError(NO_CHAT_MODEL)
        return chat, self.open(chat, CHAT_TYPE)

    def named(self, connection_id: str, kind: str, *, field: str | None = None) -> Connection:
        """Return the connection that a request names in that field.

        Raises ConnectionNotFoundError when there is none, ConflictError when it is of another kind.
        """
        found = self.find(connection_id, field=field)
        if found.kind != kind:
            raise ConflictError(
                f"Connection '{connection_id}' is of type {found.kind}, not {kind}",
                code="wrong_connection_type",
                field=field,
                connection=connection_id,
                allowed=[each.id for each in self.all() if each.kind == kind],
            )
        return found

    def chat_model(self) -> str | None:
        """Return the id of the connection that answers: the marked one, else that of the settings, None without any."""
        marked, is_stored = self._stored.marked()
        if is_stored and marked not in self._given:
            return marked
        given = (self._given.get(each) for each in (marked, CHAT))
        return next((each.id for each in given if each is not None and each.kind == CHAT_TYPE), None)

    def of_service(self) -> dict[str, Connection]:
        """Return the models that the service itself uses, by the names that health reports give them."""
        found = {"embedding": self._given.get("default"), "chat": self._given.get(CHAT)}
        with suppress(RagError):  # where the catalogue does not answer, the report says so
            chat = self.chat_model()
            found["chat"] = None if chat is None else self._given.get(chat) or self._stored.find(chat)
        found["rerank"] = self._given.get("rerank")
        return {name: connection for name, connection in found.items() if connection is not None}

    def version(self, connection_id: str) -> tuple[str, str]:
        """Return what is another one each time that the connection of that id was changed, and when it is gone."""
        try:
            return self.find(connection_id).version
        except ConnectionNotFoundError:
            return connection_id, "gone"

    def create(self, connection: Connection, *, shared: bool = False) -> Connection:
        """Store a new connection of the caller's. A chat model that an administrator makes is the one that answers,
        where there is none.

        Raises ConflictError when the id is taken, also by a connection that the caller does not see, InvalidInputError
        when it is not valid, and ScopeMissingError for a folder that only an administrator may choose.
        """
        if connection.id in self._given:
            raise taken(connection.id)
        connection = replace(connection, config=self.as_meant(connection, connection.config))
        check_connection(connection, self.registry, self.placeholders, typed=self.takes_typed)
        self.check_folders(connection, current())
        is_marked = connection.kind == CHAT_TYPE and current().is_admin and self.chat_model() is None
        made = replace(connection, of=current().asker.made(shared=shared))
        return self._stored.add(made, self._sealed, is_marked=is_marked)

    def change(
        self,
        connection_id: str,
        *,
        config: dict[str, Any] | None = None,
        kind: str | None = None,
        provider: str | None = None,
        display_name: str | None = None,
        shared: bool | None = None,
        chat_model: bool | None = None,
    ) -> Connection:
        """Replace what is given of a connection; `chat_model` says whether it answers instead of any other, and may be
        said of every connection of type llm.

        Secrets that are left out stay as long as the provider does; an empty string removes one. Raises
        ConnectionNotFoundError when the caller sees none of that id, OwnedByAnotherError, and ScopeMissingError as
        `create` does, and when anybody but an administrator changes what answers everybody.
        """
        caller = current()
        asker = caller.asker
        if not caller.is_admin and (chat_model is not None or self.chat_model() == connection_id):
            self.find(connection_id)
            raise ScopeMissingError(Scope.ADMIN, field="chat_model")
        if chat_model is not None and all(each is None for each in (config, kind, provider, display_name, shared)):
            found = self.named(connection_id, CHAT_TYPE)
            self._stored.mark(connection_id, chat_model)
            return found
        self._check_changeable(connection_id)

        def change(before: Connection) -> Connection:
            _check_owns(asker, before)
            after = Connection(
                before.id,
                kind or before.kind,
                provider or before.provider,
                tidied(before.config if config is None else config),
                display_name or before.display_name,
                of=asker.shared_anew(before.of, shared),
            )
            after = self._with_kept_secrets(before, after)
            if chat_model and after.kind != CHAT_TYPE:
                raise InvalidInputError(f"chat_model is for type {CHAT_TYPE}, not {after.kind}", field="chat_model")
            check_connection(after, self.registry, self.placeholders, typed=self.takes_typed)
            self.check_folders(after, caller)
            return self._sealed(after)

        changed = self._stored.change(connection_id, change, chat_model)
        self._live.forget(connection_id)
        return changed

    def delete(self, connection_id: str) -> None:
        """Delete a connection. Raises ConnectionNotFoundError when the caller sees none of that id, and
        OwnedByAnotherError."""
        self._check_changeable(connection_id)
        self._stored.delete(connection_id, partial(_check_owns, current().asker))
        self._live.forget(connection_id)

    def open(self, connection_id: str, kind: str) -> Provider:
        """Return the provider of the live connection; raises what `live` raises."""
        return self.live(connection_id, kind).provider

    def live(self, connection_id: str, kind: str) -> LiveConnection:
        """Return the open connection of that name; open it again when anything it is made from has changed.

        Only the connection's own configuration decides how it is opened. Raises ConnectionNotFoundError when there is
        none, ConflictError when it is of another kind, and ConfigurationError with the reason when it cannot be used.
        """
        connection = self.named(connection_id, kind)
        provider = self.registry.provider(kind, connection.provider)
        try:
            try:
                resolved, redactor = self._resolved(connection, provider)
            except UnopenedSecretsError:
                # The key may have been changed between the two readings, that of the connection and that of the key.
                connection = self.find(connection_id)
                resolved, redactor = self._resolved(connection, provider)
            context = replace(self.context, redactor=redactor)
            return self._live.get(
                connection,
                _digest([connection.generation, connection.provider, resolved]),
                lambda: self.registry.connect(kind, connection.provider, resolved, context),
            )
        except (InvalidConfigurationError, UnresolvedPlaceholderError, UnopenedSecretsError) as error:
            # The configuration was valid when it was stored: now the environment or the key does not fit it.
            sentence = f"Connection '{connection_id}' cannot be used: {error.message}"
            raise ConfigurationError(sentence, connection=connection_id, **error.details) from None

    def shown(self, connection: Connection) -> ShownConnection:
        """Return what anybody may see of a connection: of its secrets only which are set and what they refer to."""
        try:
            hidden = self._secret_names(connection)
        except ProviderNotFoundError:  # the package that brought it is not here any more
            hidden = frozenset(connection.config)
        typed = tuple(sorted(field_at(pointer) for pointer in connection.sealed))
        return ShownConnection(
            connection.id,
            connection.kind,
            connection.provider,
            connection.display_name,
            config={name: value for name, value in connection.config.items() if name not in hidden},
            secrets={
                name: self.placeholders.references(connection.config.get(name))
                for name in sorted({*(hidden & connection.config.keys()), *typed})
            },
            origin=connection.origin,
            stored_secrets=typed,
            of=connection.of if connection.origin == "stored" else EVERYBODYS,
        )

    def completed(self, connection_id: str, candidate: Connection) -> Connection:
        """Return a candidate with the secrets that it would keep if the connection of that id were changed to it; those
        that were typed stay sealed.

        Raises what `change` raises for the connection, and InvalidConfigurationError for secrets that must be given
        again.
        """
        self._check_changeable(connection_id)
        before = self.find(connection_id)
        _check_owns(current().asker, before)
        return self._with_kept_secrets(before, replace(candidate, id=before.id))

    def opened_secrets(self, connection: Connection) -> dict[str, str]:
        """Return the secrets of a connection that were typed, by their JSON Pointers. Raises UnopenedSecretsError when
        they were typed for another destination, and what resolving its address raises."""
        if not connection.sealed:
            return {}
        provider = self.registry.provider(connection.kind, connection.provider)
        return self._seal.open_all(
            connection.sealed, _destination(connection, self.leads_to(connection.config, provider))
        )

    def address(self, connection: Connection) -> str | None:
        """Return the URL that a connection leads to, with placeholders as they were written."""
        return self.registry.provider(connection.kind, connection.provider).address(connection.config)

    def elsewhere(self, connection_ids: Iterable[str]) -> list[str]:
        """Return which of these connections lead to other services, as far as the caller sees them."""
        found = []
        for each in connection_ids:
            with suppress(RagError):  # who asks it is told what is wrong with it
                found += [each] * (self.address(self.find(each)) is not None)
        return found

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

    def _with_kept_secrets(self, before: Connection, after: Connection) -> Connection:
        if (before.kind, before.provider) != (after.kind, after.provider):
            return replace(after, config=self.as_meant(after, after.config))
        config = self.as_meant(after, after.config, keeping_empty=True)
        kept = {
            name: before.config[name]
            for name in sorted(self._secret_names(before) & before.config.keys() - config.keys())
        }
        sealed = {pointer: token for pointer, token in before.sealed.items() if leaves_out(config, pointer)}
        lost = [*(f"/{name}" for name in kept), *sealed]
        after = replace(after, config=config)
        if lost and self._origin(before) != self._origin(after):
            # Users may change a connection without knowing its secrets, and must not be able to send them elsewhere.
            sentence = "must be given again: the connection leads to another host now"
            wrong = [Fault(pointer, f"{pointer.removeprefix('/')} {sentence}") for pointer in lost]
            raise InvalidConfigurationError(after.provider, wrong)
        return replace(after, config=self.as_meant(after, kept | config), sealed=sealed)

    def _sealed(self, connection: Connection) -> Connection:
        """Return the connection with the secrets that were typed sealed for where it leads now."""
        provider = self.registry.provider(connection.kind, connection.provider)
        schema = provider.connection_schema()
        typed = typed_secrets(connection.config, schema)
        if not typed:
            return connection
        self.placeholders.hide(typed.values())
        config = without_secrets(connection.config, typed)
        destination = _destination(connection, self.leads_to(config, provider))
        sealed = {pointer: self._seal.sealed(secret, destination, pointer) for pointer, secret in typed.items()}
        return replace(connection, config=config, sealed=connection.sealed | sealed)

    def _resolved(self, connection: Connection, provider: type[Provider]) -> Resolved:
        """Return the configuration as it is used, with placeholders resolved and sealed secrets opened."""
        placeholders = self._placeholders_of(connection)
        resolved = placeholders.resolve(connection.config, provider.connection_schema(), provider.address)
        if not connection.sealed:
            return resolved
        schema = provider.connection_schema()
        destination = _destination(connection, origins(resolved.config, schema, provider.address(resolved.config)))
        opened = self._seal.open_all(connection.sealed, destination)
        placeholders.hide(opened.values())
        redactor = Redactor(resolved.redactor.values.union(opened.values()))
        return Resolved(with_secrets(resolved.config, opened), redactor)

    def leads_to(self, config: Mapping[str, Any], provider: type[Provider]) -> tuple[str, ...]:
        """Return the origins of a configuration. Raises InvalidInputError when one of them cannot be known now."""
        schema = provider.connection_schema()
        resolved = self.placeholders.resolve(config, schema, provider.address).config
        return origins(resolved, schema, provider.address(resolved))

    def _origin(self, connection: Connection) -> str | None:
        """Return scheme, host and port as they were written; only the names of variables keep their case."""
        address = self.address(connection)
        if address is None:
            return None
        place = "/".join(address.split("/")[:3])
        return place if has_placeholder(place) else place.lower()

    def as_meant(
        self, connection: Connection, config: dict[str, Any], *, keeping_empty: bool = False
    ) -> dict[str, Any]:
        """Return the configuration in this release's spelling, without empty secrets: an empty one means no secret."""
        config = tidied(config)
        entry = self.registry.entry(connection.provider, connection.kind)
        if entry.provider is not None:
            config = current_spelling(config, entry.id, entry.provider.connection_schema())
        hidden = frozenset[str]() if keeping_empty else self._secret_names(connection)
        return {name: value for name, value in config.items() if not (name in hidden and value == "")}

    def check_folders(self, connection: Connection, caller: Caller) -> None:
        """Raise ScopeMissingError when anybody but an administrator chooses a folder of the data directory: another's
        connection may keep its documents there."""
        provider = self.registry.entry(connection.provider, connection.kind).provider
        known = frozenset[str]() if provider is None else folders(provider.connection_schema())
        chosen = known & tidied(connection.config).keys()
        if chosen and not caller.is_admin:
            raise ScopeMissingError(Scope.ADMIN, field=f"config.{min(chosen)}")

    def _check_changeable(self, connection_id: str) -> None:
        if connection_id in self._given:
            raise ConflictError(
                f"Connection '{connection_id}' is {self._given[connection_id].origin} and cannot be changed here",
                code="connection_read_only",
                connection=connection_id,
            )


def _destination(connection: Connection, leads_to: tuple[str, ...]) -> Destination:
    return Destination(connection.id, connection.kind, connection.provider, leads_to)


def _sees(asker: Asker, connection: Connection) -> bool:
    """Return whether a stored connection exists for the asker.

    Nothing of the collections is in a connection: what a caller without restrictions shares, others may use who see few
    collections.
    """
    return asker.sees(connection.of) or connection.of.audience == EVERYTHING_SEEN


def _check_owns(asker: Asker, connection: Connection) -> None:
    if not _sees(asker, connection):
        raise ConnectionNotFoundError(connection.id)
    asker.check_owns(connection.of, f"Connection '{connection.id}'")


def _digest(made_from: Any) -> str:
    return hashlib.sha256(orjson.dumps(made_from, option=orjson.OPT_SORT_KEYS)).hexdigest()
