"""What a backup says about itself: the head, which anybody can read, and the tally of its members at its end."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson

from wrapper.backups.sealing import DamagedArchiveError

FORMAT = 1
TALLY_BYTES = 8 + 32
TIME = "%Y%m%dT%H%M%SZ"
RELEASE = re.compile(r"[0-9A-Za-z.+_-]{1,64}")
WORD = re.compile(r"[a-z][a-z0-9_-]{0,63}")
CHECK = re.compile(r"[0-9A-Za-z+/=]{0,64}")
CATALOGUE = re.compile(r"[0-9A-Za-z-]{0,64}")
"""What the texts of a head may be: they are shown before anybody has said that the file is to be trusted."""
BACKUP_ID = re.compile(r"(?:rag-wrapper|before-migration-from-schema-[0-9]{1,6})-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")


class Reason(StrEnum):
    """Why a backup was made."""

    ASKED = "asked"
    SCHEDULE = "schedule"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before everything else, in the clear.

    `kind` is that of the catalogue's database, `catalogue` its identity (empty in catalogues from before there was
    one), `counts` are those of its snapshot. `whole` says that the files of the data directory are in the backup, too;
    else it holds the catalogue alone. `home` is the name of that directory among those of services that share the
    database, empty where it has none yet. `salt` and `check` are those of an encrypted backup.
    """

    id: str
    created_at: datetime
    release: str
    reason: Reason
    kind: str
    schema_version: int
    catalogue: str
    counts: Mapping[str, int]
    whole: bool
    salt: bytes = b""
    check: str = ""
    home: str = ""

    def stands_for(self, home: str) -> bool:
        """Return whether the files of the data directory of that name are in the backup, for all that is known."""
        return self.home in ("", home)

    @property
    def encrypted(self) -> bool:
        return bool(self.salt)


class Tally:
    """The number of members of a backup, and one digest over their names, sizes and digests in their order."""

    def __init__(self) -> None:
        self._count = 0
        self._digest = hashlib.sha256()

    def add(self, name: str, size_bytes: int, sha256: bytes) -> None:
        self._count += 1
        self._digest.update(len(name).to_bytes(4) + name.encode() + size_bytes.to_bytes(8) + sha256)

    def told(self) -> bytes:
        return self._count.to_bytes(8) + self._digest.digest()


def new_id(reason: Reason, schema_version: int, now: datetime) -> str:
    """Return the id of a new backup, which is its file's name without the ending."""
    of = f"before-migration-from-schema-{schema_version}" if reason is Reason.MIGRATION else "rag-wrapper"
    return f"{of}-{now.astimezone(UTC).strftime(TIME)}-{secrets.token_hex(4)}"


def dump_head(head: Head) -> bytes:
    return orjson.dumps(
        {
            "format": FORMAT,
            "id": head.id,
            "created_at": head.created_at.isoformat(),
            "release": head.release,
            "reason": head.reason.value,
            "kind": head.kind,
            "schema_version": head.schema_version,
            "catalogue": head.catalogue,
            "counts": dict(head.counts),
            "whole": head.whole,
            "salt": head.salt.hex(),
            "check": head.check,
            "home": head.home,
        }
    )


def load_head(content: bytes) -> Head:
    """Read a head. Raises DamagedArchiveError when it is none, or that of a newer release's format."""
    try:
        found: dict[str, Any] = orjson.loads(content)
        if found["format"] > FORMAT:
            by = _text(found["release"], RELEASE)
            raise DamagedArchiveError(
                f"The backup was written by release {by}, whose format this release does not know: restore it with "
                "that release or a newer one"
            )
        return Head(
            id=_text(found["id"], BACKUP_ID),
            created_at=_moment(found["created_at"]),
            release=_text(found["release"], RELEASE),
            reason=Reason(found["reason"]),
            kind=_text(found["kind"], WORD),
            schema_version=_count(found["schema_version"]),
            catalogue=_text(found["catalogue"], CATALOGUE),
            counts={_text(name, WORD): _count(number) for name, number in found["counts"].items()},
            whole=found["whole"] is True,
            salt=bytes.fromhex(found["salt"]),
            check=_text(found["check"], CHECK),
            home=_text(found.get("home", ""), CATALOGUE),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedArchiveError("The backup is damaged: its head cannot be read") from None


def _moment(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError
    return moment


def _text(value: Any, form: re.Pattern[str]) -> str:
    if not form.fullmatch(value):
        raise ValueError
    return str(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError
    return value
