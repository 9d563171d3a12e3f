"""Lists in OpenAI's protocol: pages behind or before the id of an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.wire.body import Body
from schemas.wire.fields import Choice, Count, Text

Json = dict[str, Any]

PAGE_SIZE, MAX_PAGE = 20, 100
ASCENDING, DESCENDING = "asc", "desc"


class CursorPage(Body):
    limit = Count(least=1, most=MAX_PAGE, in_text=True, load_default=PAGE_SIZE)
    order = Choice((ASCENDING, DESCENDING), load_default=DESCENDING)
    after = Text(load_default=None)
    before = Text(load_default=None)


CURSOR_PAGE = CursorPage()


def listed(data: Sequence[Json], *, has_more: bool) -> Json:
    """Spell a page of a list."""
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }


def seconds(at_ms: int) -> int:
    """Return a time in milliseconds as OpenAI's protocol has it."""
    return at_ms // 1_000
