"""The headers that tell a caller of their key's limits (draft-ietf-httpapi-ratelimit-headers-10)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flask import Response

from schemas.access.callers import Limits
from wrapper.access.limits import CONCURRENT, REQUESTS, Admission, Standing, bucket_of

POLICY, STANDING = "RateLimit-Policy", "RateLimit"
DAY_SECONDS = 86_400
NAMES = {REQUESTS: "requests", CONCURRENT: "concurrent"}
"""The names of the policies by limit; limits for a day have the name of the limit."""


def add_limit_headers(response: Response, admission: Admission) -> None:
    """Add what the answer tells of the limits: all of them, and how the caller stands with those counted here."""
    if policies := list(policies_of(admission.limits)):
        response.headers[POLICY] = ", ".join(policies)
    if admission.standings:
        response.headers[STANDING] = ", ".join(map(_standing, admission.standings))


def policies_of(limits: Limits) -> Iterator[str]:
    """Yield the limits as items of `RateLimit-Policy`, whose windows have whole seconds."""
    if limits.requests_per_second is not None:
        seconds = bucket_of(limits).amount / limits.requests_per_second
        window_seconds = max(1, math.ceil(round(seconds, 6)))
        quota = max(1, math.floor(round(limits.requests_per_second * window_seconds, 6)))
        yield f'"requests";q={quota};w={window_seconds}'
    if limits.concurrent is not None:
        yield f'"concurrent";q={limits.concurrent};qu="concurrent-requests"'
    if limits.embedded_tokens_per_day is not None:
        yield f'"embedded_tokens_per_day";q={limits.embedded_tokens_per_day};w={DAY_SECONDS};qu="tokens"'
    if limits.chats_per_day is not None:
        yield f'"chats_per_day";q={limits.chats_per_day};w={DAY_SECONDS};qu="chats"'


def _standing(standing: Standing) -> str:
    name = NAMES.get(standing.limit, standing.limit)
    until = "" if standing.seconds is None else f";t={standing.seconds}"
    return f'"{name}";r={standing.left}{until}'
