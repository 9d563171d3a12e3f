"""Backups on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from schemas.storage.backups import Backup

Json = dict[str, Any]


def backup(told: Backup) -> Json:
    return {
        "id": told.id,
        "state": told.state.value,
        "created_at": None if told.created_at is None else _time(told.created_at),
        "bytes": told.bytes,
        "encrypted": told.encrypted,
        "verified": told.verified,
        "release": told.release,
        "schema_version": told.schema_version,
        "counts": None if told.counts is None else dict(told.counts),
        "reason": told.reason,
        "message": told.message,
    }


def backups(found: Iterable[Backup]) -> Json:
    return {"backups": [backup(each) for each in found]}


def begun_backup(backup_id: str) -> Json:
    return {"id": backup_id, "state": "running"}


def deleted_backup(backup_id: str) -> Json:
    return {"status": "deleted", "id": backup_id}


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
