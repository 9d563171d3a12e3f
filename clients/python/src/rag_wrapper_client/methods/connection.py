"""Methods about connections to models and document stores, and about what can be connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_wrapper_client.exchanges import Exchange, Request, ask, at, change, get, given, read, repeatable
from rag_wrapper_client.operations import listing, operation, streamed
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.streams import EventDecoder, Opening
from rag_wrapper_client.wire.connections import (
    Connection,
    ConnectionHealth,
    ConnectionSchema,
    ConnectionType,
    DeleteConnectionAnswer,
    ListCollectionsOfConnectionAnswer,
    ListEnvVarsAnswer,
    ListProvidersAnswer,
    Models,
    Provider,
    SuggestEnvVarsAnswer,
    TestFailed,
    TestPassed,
    ValidateConnectionAnswer,
    ValidateEnvVarsAnswer,
)

Config = Mapping[str, Any]


class ConnectionMethods:
    @listing
    def connections(self, *, page_size: int = 1000) -> Listing[Connection]:
        """Iterate over the connections; their secrets are not told."""
        return paged(lambda cursor: get("/api/connections", limit=page_size, cursor=cursor), "connections")

    @operation
    def create_connection(
        self,
        connection_id: str,
        *,
        type: ConnectionType,
        provider: str,
        config: Config | None = None,
        display_name: str | None = None,
        shared: bool | None = None,
    ) -> Exchange[Connection]:
        """Create a connection. Raises ConflictError when there is one of this id."""
        body = {"id": connection_id, "type": type, "provider": provider}
        optional = given({"config": config, "display_name": display_name, "shared": shared})
        return ask(change("POST", "/api/connections", body | optional))

    @operation
    def connection(self, connection_id: str) -> Exchange[Connection]:
        """Describe a connection; its secrets are not told."""
        return ask(get(at("/api/connections/{}", connection_id)))

    @operation
    def change_connection(
        self,
        connection_id: str,
        config: Config | None = None,
        *,
        type: ConnectionType | None = None,
        provider: str | None = None,
        display_name: str | None = None,
        shared: bool | None = None,
        chat_model: bool | None = None,
    ) -> Exchange[Connection]:
        """Replace the configuration of a connection, or say whether it is the service's chat model."""
        body = {"config": config, "type": type, "provider": provider, "display_name": display_name, "shared": shared}
        path = at("/api/connections/{}", connection_id)
        return ask(repeatable(change("PUT", path, given(body | {"chat_model": chat_model}))))

    @operation
    def delete_connection(self, connection_id: str) -> Exchange[DeleteConnectionAnswer]:
        """Delete a connection."""
        return ask(change("DELETE", at("/api/connections/{}", connection_id)))

    @operation
    def connection_health(self, connection_id: str) -> Exchange[ConnectionHealth]:
        """Ask how the service behind a connection is."""
        return ask(get(at("/api/connections/{}/health", connection_id)))

    @listing
    def health_of_connections(self, *, page_size: int = 1000) -> Listing[ConnectionHealth]:
        """Iterate over the health of all connections."""
        return paged(lambda cursor: get("/api/connections/health", limit=page_size, cursor=cursor), "connections")

    @operation
    def collections_of_connection(self, connection_id: str) -> Exchange[ListCollectionsOfConnectionAnswer]:
        """List the collections behind a connection."""
        return ask(get(at("/api/connections/{}/collections", connection_id)))

    @operation
    def validate_connection(
        self, *, type: ConnectionType, provider: str, config: Config | None = None, changes: str | None = None
    ) -> Exchange[ValidateConnectionAnswer]:
        """Check a configuration without connecting. `changes` names the connection whose secrets it keeps."""
        return ask(read("/api/connections/validate", _candidate(provider, config, changes, type=type)))

    @operation
    def test_connection(
        self, *, type: ConnectionType, provider: str, config: Config | None = None, changes: str | None = None
    ) -> Exchange[TestPassed | TestFailed]:
        """Try a configuration; `success` tells whether it works, and `stages` how far it came."""
        return ask(_tried(type, _candidate(provider, config, changes)))

    @streamed
    def stream_connection_test(
        self, *, type: ConnectionType, provider: str, config: Config | None = None, changes: str | None = None
    ) -> Opening[dict[str, Any]]:
        """Try a configuration and iterate over the stages, `{"stage": …}`, and at last `{"done": True, …}` with the
        outcome, also when it does not work."""
        request = _tried(type, _candidate(provider, config, changes) | {"stream": True})
        return Opening(request, lambda _: EventDecoder(dict))

    @operation
    def discover_models(
        self, *, type: ConnectionType, provider: str, config: Config | None = None, changes: str | None = None
    ) -> Exchange[Models]:
        """List the models of a service (`embedding` or `llm`)."""
        path = at("/api/connections/{}/discovery/models", type)
        return ask(change("POST", path, _candidate(provider, config, changes)))

    @operation
    def providers(self) -> Exchange[ListProvidersAnswer]:
        """List what can be connected, by type."""
        return ask(get("/api/connections/providers"))

    @operation
    def provider(self, provider: str, *, type: ConnectionType | None = None) -> Exchange[Provider]:
        """Describe a provider."""
        return ask(get(at("/api/connections/providers/{}", provider), type=type))

    @operation
    def connection_schema(self, provider: str, *, type: ConnectionType | None = None) -> Exchange[ConnectionSchema]:
        """Tell what a provider needs to be configured with."""
        return ask(get(at("/api/connections/providers/{}/schema", provider), type=type))

    @operation
    def env_vars(self, *, mask: str | None = None) -> Exchange[ListEnvVarsAnswer]:
        """List the variables that configurations may name."""
        return ask(get("/api/connections/env-vars", mask=mask))

    @operation
    def validate_env_vars(
        self, *, names: Sequence[str] | None = None, text: str | None = None
    ) -> Exchange[ValidateEnvVarsAnswer]:
        """Tell which of the variables, given by name or in a text, may be used and are set."""
        return ask(read("/api/connections/env-vars/validate", given({"names": names, "text": text})))

    @operation
    def suggest_env_vars(
        self, *, provider: str | None = None, field: str | None = None
    ) -> Exchange[SuggestEnvVarsAnswer]:
        """Suggest variables for a field of a provider's configuration."""
        return ask(get("/api/connections/env-vars/suggestions", provider=provider, field=field))


def _candidate(provider: str, config: Config | None, changes: str | None, **more: Any) -> dict[str, Any]:
    return {"provider": provider, **more, **given({"config": config, "changes": changes})}


def _tried(type: ConnectionType, candidate: dict[str, Any]) -> Request:
    return change("POST", at("/api/connections/{}/test", type), candidate)
