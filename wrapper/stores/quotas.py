"""The quota of the current caller, as a condition of their writes."""

from __future__ import annotations

from dataclasses import replace

from schemas.access.callers import current
from wrapper.catalog.stored_bytes import Quota
from wrapper.writing import WriteOptions


def limited(options: WriteOptions) -> WriteOptions:
    """Return the conditions of a write that adds something, with what the caller's collections may hold."""
    caller = current()
    limits = caller.limits
    if limits.documents is None and limits.bytes is None:
        return options
    return replace(options, quota=Quota(caller.collections, limits.documents, limits.bytes))
