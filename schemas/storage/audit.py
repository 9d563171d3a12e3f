"""What the audit log knows of a request: who did what to which collection, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """What happened. None stands for what is not known, or has no meaning for this route.

    `key_id` is the id of the caller's key, `user` that of a user of an identity provider. `route` is the path of a
    route as in openapi.yaml, never one with ids in it. `collection` holds names with commas in between. `count` is the
    number of documents that were written, deleted or exported. `subject` is the key or user that it was done to; of
    several keys, the ids have commas in between. `cut` tells of a stream that its reader did not get all of it. An
    event with `repeated` stands for that many refused requests of its caller, the last of which it tells.
    """

    method: str
    route: str
    status: int
    key_id: str | None = None
    user: str | None = None
    scope: str | None = None
    collection: str | None = None
    count: int | None = None
    address: str | None = None
    request_id: str | None = None
    tool: str | None = None
    subject: str | None = None
    cut: bool = False
    repeated: int | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A line of the audit log: what happened, and when in UTC."""

    time: datetime
    event: AuditEvent


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries are wanted: those not before `since`, by or about this key or user, and of this collection."""

    since: datetime | None = None
    key: str | None = None
    collection: str | None = None

    def fits(self, entry: AuditEntry) -> bool:
        event = entry.event
        return (
            (self.since is None or entry.time >= self.since)
            and (self.key is None or self.key in (event.key_id, event.user, *(event.subject or "").split(",")))
            and (self.collection is None or self.collection in (event.collection or "").split(","))
        )


def entry_body(entry: AuditEntry) -> dict[str, Any]:
    """Return an entry as it stands in answers, and in the lines of the log itself."""
    event = entry.event
    spelt: dict[str, Any] = {
        "time": entry.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "key_id": event.key_id,
        "user": event.user,
        "scope": event.scope,
        "method": event.method,
        "route": event.route,
        "collection": event.collection,
        "count": event.count,
        "status": event.status,
        "address": event.address,
        "request_id": event.request_id,
    }
    if event.tool is not None:
        spelt["tool"] = event.tool
    if event.subject is not None:
        spelt["subject"] = event.subject
    if event.cut:
        spelt["cut"] = True
    if event.repeated is not None:
        spelt["repeated"] = event.repeated
    return spelt
