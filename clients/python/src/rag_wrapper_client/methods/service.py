"""Methods about the service itself, and the one that reaches every route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rag_wrapper_client.bodies import Body
from rag_wrapper_client.errors import TimedOutError, UnavailableError
from rag_wrapper_client.exchanges import (
    Answer,
    Exchange,
    Request,
    Wait,
    ask,
    ask_text,
    at,
    change,
    get,
    given,
    spelt,
)
from rag_wrapper_client.operations import operation, streamed
from rag_wrapper_client.streams import ByteDecoder, Opening
from rag_wrapper_client.wire.service import (
    Backup,
    BeginBackupAnswer,
    DeleteBackupAnswer,
    EraseAnswer,
    GetDescriptionAnswer,
    GetLivenessAnswer,
    GetReadinessAnswer,
    GetRecentRequestsAnswer,
    GetServiceAnswer,
    Health,
    ListAuditEntriesAnswer,
    ListBackupsAnswer,
    ListSettingsAnswer,
    ProtectedResource,
    ShortHealth,
)

LONGEST_LOOK_SECONDS = 5.0
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class ServiceMethods:
    @operation
    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Exchange[Answer[bytes]]:
        """Send any request and return the answer as bytes, for what has no method of its own. `path` is as in a URL.
        Unless said otherwise, reads and what carries an `Idempotency-Key` are repeated. Errors are raised as always."""
        return _requested(method, path, params, json, content, headers or {}, is_repeatable, timeout_seconds)

    @operation
    def about(self) -> Exchange[GetServiceAnswer]:
        """Tell what answers, and its version."""
        return ask(get("/"))

    @operation
    def health(self) -> Exchange[Health | ShortHealth]:
        """Tell how the service is: `healthy`, `degraded` or `unhealthy`; less to callers without the rights."""
        return _health()

    @operation
    def ready(self) -> Exchange[GetReadinessAnswer]:
        """Return when the service takes requests. Raises UnavailableError when it does not."""
        return ask(get("/ready"))

    @operation
    def live(self) -> Exchange[GetLivenessAnswer]:
        """Return when the service answers at all."""
        return ask(get("/live"))

    @operation
    def metrics(self) -> Exchange[str]:
        """Return the metrics, in Prometheus' text format."""
        return ask_text(get("/metrics"))

    @operation
    def recent_requests(self) -> Exchange[GetRecentRequestsAnswer]:
        """Count the requests of each of the last sixty minutes."""
        return ask(get("/api/service/recent"))

    @operation
    def description(self) -> Exchange[GetDescriptionAnswer]:
        """Return the description of all routes, an OpenAPI document."""
        return ask(get("/openapi.json"))

    @operation
    def settings(self) -> Exchange[ListSettingsAnswer]:
        """List the settings, where each comes from, and no secret."""
        return ask(get("/api/settings"))

    @operation
    def audit_entries(
        self,
        *,
        since: str | None = None,
        key: str | None = None,
        collection: str | None = None,
        limit: int | None = None,
    ) -> Exchange[ListAuditEntriesAnswer]:
        """List who did what, the latest first."""
        return ask(get("/api/audit", since=since, key=key, collection=collection, limit=limit))

    @operation
    def erase(
        self,
        *,
        collection: str | None = None,
        where: Mapping[str, Any] | None = None,
        document: str | None = None,
        user: str | None = None,
        all_matching: bool | None = None,
        timeout_seconds: float | None = None,
    ) -> Exchange[EraseAnswer]:
        """Erase documents, or what is known of a user, from everywhere. What is left when it fails is in the error's
        `details`; ask for the same again."""
        body = given(
            {"collection": collection, "where": where, "document": document, "user": user, "all": all_matching}
        )
        request = Request("POST", "/api/erase", body=Body.of_json(body), timeout_seconds=timeout_seconds)
        return ask(request)

    @operation
    def backups(self) -> Exchange[ListBackupsAnswer]:
        """List the backups, the latest first."""
        return ask(get("/api/backups"))

    @operation
    def begin_backup(self) -> Exchange[BeginBackupAnswer]:
        """Begin a backup: see `wait_for_backup`."""
        return ask(change("POST", "/api/backups"))

    @operation
    def backup(self, backup_id: str) -> Exchange[Backup]:
        """Tell how far a backup is, and what is in it."""
        return ask(get(at("/api/backups/{}", backup_id)))

    @operation
    def wait_for_backup(
        self, backup_id: str, *, timeout_seconds: float = 3600.0, look_seconds: float = 0.2
    ) -> Exchange[Backup]:
        """Return a backup once it has ended, well or not: see its `state`. Raises TimedOutError (`backup_not_ended`)
        after so many seconds of waiting."""
        return _ended(backup_id, timeout_seconds, look_seconds)

    @operation
    def delete_backup(self, backup_id: str) -> Exchange[DeleteBackupAnswer]:
        """Delete a backup."""
        return ask(change("DELETE", at("/api/backups/{}", backup_id)))

    @streamed
    def backup_content(self, backup_id: str) -> Opening[bytes]:
        """Iterate over the bytes of a backup."""
        return Opening(get(at("/api/backups/{}/content", backup_id)), lambda _: ByteDecoder())

    @operation
    def protected_resource(self, *, of_mcp: bool = False) -> Exchange[ProtectedResource]:
        """Tell who issues tokens for this service, or for its MCP. Raises NotFoundError when nobody does."""
        return ask(get("/.well-known/oauth-protected-resource" + ("/mcp" if of_mcp else "")))


def _health() -> Exchange[Health | ShortHealth]:
    try:
        answer: Health | ShortHealth = yield from ask(change("GET", "/health"))
    except UnavailableError as error:
        if not isinstance(error.body, dict) or "healthy" not in error.body:
            raise
        answer = error.body  # type: ignore[assignment]
    return answer


def _ended(backup_id: str, timeout_seconds: float, look_seconds: float) -> Exchange[Backup]:
    waited = 0.0
    while True:
        backup: Backup = yield from ask(get(at("/api/backups/{}", backup_id)))
        if backup["state"] != "running":
            return backup
        if waited >= timeout_seconds:
            raise TimedOutError(f"The backup is not done after {timeout_seconds:g} seconds", code="backup_not_ended")
        seconds = min(LONGEST_LOOK_SECONDS, timeout_seconds - waited, max(look_seconds, waited / 10))
        yield Wait(seconds)
        waited += seconds


def _requested(
    method: str,
    path: str,
    params: Mapping[str, Any] | None,
    json: Any,
    content: bytes | None,
    headers: Mapping[str, str],
    is_repeatable: bool | None,
    timeout_seconds: float | None,
) -> Exchange[Answer[bytes]]:
    has_key = any(name.lower() == "idempotency-key" for name in headers)
    body = Body("application/octet-stream", content) if content is not None else None
    request = Request(
        method.upper(),
        path if path.startswith("/") else f"/{path}",
        spelt(params or {}),
        headers,
        Body.of_json(json) if json is not None else body,
        is_repeatable=(method.upper() in SAFE or has_key) if is_repeatable is None else is_repeatable,
        timeout_seconds=timeout_seconds,
    )
    reply = yield request
    if reply is None:
        raise RuntimeError("a request was not sent")
    return Answer(reply.content, reply.status, reply.headers)
