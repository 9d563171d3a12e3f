"""The answer of `GET /api/service/recent`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from schemas.observing.recent import Minute


def recent_answer(minutes: Sequence[Minute]) -> dict[str, Any]:
    return {"minutes": [_minute(each) for each in minutes]}


def _minute(each: Minute) -> dict[str, Any]:
    begins = datetime.fromtimestamp(each.begins_at, UTC).isoformat().replace("+00:00", "Z")
    by_kind = {kind: asdict(latencies) for kind, latencies in each.by_kind.items()}
    return {"minute": begins, **asdict(each.total), "by_kind": by_kind}
