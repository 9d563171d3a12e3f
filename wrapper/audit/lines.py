"""Spells the lines of the audit log: a JSON object each, in printable ASCII, of a bounded length.

Names, addresses and ids come from strangers. In ASCII with JSON's escapes none of them can begin a line, end its string
or command the terminal of whoever looks at the file. Credentials in them are cut out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from schemas.access.credentials_in_text import (
    Cleaner,
    cleaned_beginning,
    thorough,
    through_escapes,
    without_credentials,
)
from schemas.storage.audit import AuditEntry, AuditEvent, entry_body

MAX_LINE_BYTES = 4096
"""The longest that a line can be, its end included."""
MAX_CHARACTERS = 128
"""The longest that a text is kept; of a longer one the beginning is, with CUT behind it."""
MAX_COLLECTION_CHARACTERS = 1_024
MAX_ESCAPED_CHARACTERS = 32
"""The same for texts that need many escapes."""
CUT = "..."
NOT_FOUND = 404
_encode = json.JSONEncoder(separators=(",", ":")).encode


def to_line(event: AuditEvent, time: datetime, clean: Cleaner = without_credentials) -> bytes:
    """Return the line of an event, with the line feed at its end, and its texts cleaned."""
    # What is not found is nobody's name: it may be a piece of a key.
    clean = thorough(clean) if event.status == NOT_FOUND else through_escapes(clean)

    # One more than is kept: whether a text is longer is then seen after it is cleaned.
    def bound(text: str, most: int) -> str:
        return _bounded(cleaned_beginning(text, most + 1, clean), most)

    line = _encoded(event, time, bound)
    if len(line) > MAX_LINE_BYTES:
        line = _encoded(event, time, lambda text, most: bound(text, MAX_ESCAPED_CHARACTERS))
    return line


def from_line(line: bytes) -> AuditEntry:
    """Return the entry of a line. Raises ValueError for one that is torn or is not of this log."""
    found = orjson.loads(line)
    if not isinstance(found, dict):
        raise ValueError("The line is not an object")
    status, count, repeated = found.get("status"), found.get("count"), found.get("repeated")
    time = datetime.fromisoformat(_required(found, "time"))
    if time.tzinfo is None or not isinstance(status, int):
        raise ValueError("The line has no time zone or no status")
    return AuditEntry(
        time,
        AuditEvent(
            method=_required(found, "method"),
            route=_required(found, "route"),
            status=status,
            key_id=_text(found, "key_id"),
            user=_text(found, "user"),
            scope=_text(found, "scope"),
            collection=_text(found, "collection"),
            count=count if _is_whole(count) else None,
            address=_text(found, "address"),
            request_id=_text(found, "request_id"),
            tool=_text(found, "tool"),
            subject=_text(found, "subject"),
            cut=found.get("cut") is True,
            repeated=repeated if _is_whole(repeated) else None,
        ),
    )


def _encoded(event: AuditEvent, time: datetime, bound: Callable[[str, int], str]) -> bytes:
    spelt = entry_body(AuditEntry(time, event))
    for name, text in spelt.items():
        if isinstance(text, str) and name not in ("time", "scope"):
            spelt[name] = bound(text, MAX_COLLECTION_CHARACTERS if name == "collection" else MAX_CHARACTERS)
    return _encode(spelt).encode("ascii") + b"\n"


def _bounded(text: str, most: int) -> str:
    if text.isascii() and len(text) <= most:
        return text
    whole = text if len(text) <= most else text[: most - len(CUT)] + CUT
    return whole.encode(errors="replace").decode()  # half a surrogate pair cannot be read back


def _required(found: dict[str, Any], name: str) -> str:
    text = found.get(name)
    if not isinstance(text, str):
        raise ValueError(f"The line has no {name}")
    return text


def _text(found: dict[str, Any], name: str) -> str | None:
    text = found.get(name)
    return text if isinstance(text, str) else None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
