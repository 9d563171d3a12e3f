"""Collections and documents as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interfaces.terminal.screen import Screen

Json = Mapping[str, Any]


def show_collections(screen: Screen, collections: Sequence[Json]) -> None:
    rows = [
        (
            each["name"],
            str(each["count"]),
            str(each["dimension"] or ""),
            each["metric"],
            str(each["metadata"].get("embedding_model") or ""),
        )
        for each in collections
    ]
    screen.table(("NAME", "DOCUMENTS", "DIMENSION", "METRIC", "MODEL"), rows, right=(1, 2))


def show_documents(screen: Screen, documents: Sequence[Json]) -> None:
    rows = [
        (
            each["source"],
            each["kind"] or "",
            each["title"] or "",
            str(each["chunks"]),
            ",".join(each["tags"]),
            (each["updated_at"] or "")[:19],
            each["collection"],
        )
        for each in documents
    ]
    screen.table(("SOURCE", "KIND", "TITLE", "CHUNKS", "TAGS", "UPDATED", "COLLECTION"), rows, right=(3,))
