"""Filters made narrower, as they are on the wire."""

from __future__ import annotations

from providers.base import Filter


def narrowed(where: Filter | None, more: Filter) -> Filter:
    """What matches both; without an operator where that can be said so: operators may be nested only so deep."""
    if not where:
        return more
    return {**where, **more} if where.keys().isdisjoint(more) else {"$and": [where, more]}
