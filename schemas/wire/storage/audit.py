"""The query string and the answer of `GET /api/audit`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from marshmallow import validate

from schemas.access.time_spans import UNIT_SECONDS
from schemas.errors import InvalidInputError
from schemas.storage.audit import AuditEntry, entry_body
from schemas.wire.body import Body
from schemas.wire.fields import Count, Text

USUAL_LIMIT, MAX_LIMIT = 100, 1_000
MAX_CHARACTERS = 1_000
_AGO = re.compile(r"([0-9]{1,5})([smhdw])")
_short = validate.Length(min=1, max=MAX_CHARACTERS)


class AuditArguments(Body):
    since = Text(load_default=None, validate=_short)
    key = Text(load_default=None, validate=_short)
    collection = Text(load_default=None, validate=_short)
    limit = Count(least=1, most=MAX_LIMIT, in_text=True, load_default=USUAL_LIMIT)


AUDIT_ARGUMENTS = AuditArguments()


def since_of(text: str, now: datetime) -> datetime:
    """Return the time that is meant: one in ISO 8601, in UTC unless it says otherwise, or a while ago like `7d`.

    Raises InvalidInputError for anything else.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * UNIT_SECONDS[ago[2]])
        # A plus that nobody escaped arrives in a query string as a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInputError(
            "since must be a time like 2026-11-22T08:30:00Z, or a while ago like 7d, 12h or 30m",
            code="invalid_field",
            field="since",
        ) from None


def audit_answer(entries: Iterable[AuditEntry]) -> dict[str, Any]:
    return {"entries": [entry_body(each) for each in entries]}
