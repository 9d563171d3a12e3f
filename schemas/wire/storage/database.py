"""Databases on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.records import Database


def databases_answer(found: Sequence[Database]) -> dict[str, Any]:
    return {"databases": [{"id": each.id, "tenant": each.tenant, "name": each.name} for each in found]}
