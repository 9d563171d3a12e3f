"""The requests of the last hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KINDS = ("state", "read", "write", "upload", "computing", "service", "embedding", "other")
"""What requests waited for; `other` waited for nothing, or fitted no route."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Requests, those of them that failed (5xx, or an answer that broke off), and percentiles of their durations in
    milliseconds, None where there was no request."""

    requests: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True)
class Minute:
    """The requests that ended in one minute, which began at `begins_at` seconds since 1970."""

    begins_at: int
    total: Latencies
    by_kind: Mapping[str, Latencies]
