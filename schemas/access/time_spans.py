"""Spans of time as people write them: 90s, 30m, 12h, 30d, 8w."""

from __future__ import annotations

import re
from datetime import timedelta

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def span_of(text: str) -> timedelta | None:
    """Return the span that a text means, None where it means none."""
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else timedelta(seconds=int(found[1]) * UNIT_SECONDS[found[2]])
