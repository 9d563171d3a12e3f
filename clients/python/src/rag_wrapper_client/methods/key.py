"""Methods about API keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_wrapper_client.exchanges import Exchange, ask, at, change, get, given, repeatable
from rag_wrapper_client.operations import operation
from rag_wrapper_client.wire.service import (
    ApiKey,
    ChangedApiKey,
    Limits,
    ListKeysAnswer,
    Myself,
    NewApiKeyMade,
    RevokeKeyAnswer,
    Scope,
)


class KeyMethods:
    @operation
    def me(self) -> Exchange[Myself]:
        """Tell who asks, and what they may do."""
        return ask(get("/api/me"))

    @operation
    def keys(self) -> Exchange[ListKeysAnswer]:
        """List the keys, without what they are."""
        return ask(get("/api/keys"))

    @operation
    def create_key(
        self,
        name: str,
        scopes: Sequence[Scope],
        *,
        collections: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        expires_at: str | None = None,
    ) -> Exchange[NewApiKeyMade]:
        """Make a key. It is told this once, as `key`."""
        body = {"name": name, "scopes": scopes}
        optional = given({"collections": collections, "where": where, "limits": limits, "expires_at": expires_at})
        return ask(change("POST", "/api/keys", body | optional))

    @operation
    def key(self, key_id: str) -> Exchange[ApiKey]:
        """Describe a key."""
        return ask(get(at("/api/keys/{}", key_id)))

    @operation
    def change_key(self, key_id: str, changes: ChangedApiKey) -> Exchange[ApiKey]:
        """Change what is given of a key; a `where` of `*` lifts its filter."""
        return ask(repeatable(change("PATCH", at("/api/keys/{}", key_id), changes)))

    @operation
    def revoke_key(self, key_id: str) -> Exchange[RevokeKeyAnswer]:
        """Revoke a key, for good and at once."""
        return ask(repeatable(change("DELETE", at("/api/keys/{}", key_id))))

    @operation
    def rotate_key(self, key_id: str, *, grace_seconds: int | None = None) -> Exchange[NewApiKeyMade]:
        """Make a key's successor, which is told this once; the key itself works `grace_seconds` longer."""
        body = given({"grace_seconds": grace_seconds})
        return ask(change("POST", at("/api/keys/{}/rotate", key_id), body))
