"""Answers of two services that hold the same, without what differs all the same."""

from __future__ import annotations

import re
from typing import Any

import orjson

UNLIKE = frozenset(
    {
        *("revision", "plan", "plans", "id_of_answer", "context_id", "query_id", "timestamp", "etag", "embeddings"),
        "usage_bytes",  # which who sees only a part is not told
    }
)
"""What differs between two services that hold the same, by its name: when and how fast they answered, and how often
they were written to."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|vs_[0-9a-f]{32}")


def comparable(answer: Any) -> Any:
    """Return an answer without what differs between two services that hold the same."""
    if answer.mimetype == "application/json":
        body = _without(answer.json)
    elif answer.mimetype == "application/x-ndjson":
        body = [orjson.loads(line) for line in answer.data.splitlines()]
    else:
        body = answer.data
    return answer.status_code, body, answer.headers.get("X-Document-Count")


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() >= {"content", "isError"} or value.keys() >= {"content", "structuredContent"}:
            value = {key: each for key, each in value.items() if key != "content"}  # the same again, as a text
        if value.keys() >= {"id", "name", "metric"} or "configuration_json" in value:
            value = {key: each for key, each in value.items() if key != "id"}  # of a collection
        return {
            key: each is not None if key == "next_cursor" else _without(each)
            for key, each in value.items()
            if key not in UNLIKE and "atency" not in key and key not in ("cacheHitRate", "request_id")
        }
    if isinstance(value, str):
        return UUID.sub("UUID", value)
    return [_without(each) for each in value] if isinstance(value, list) else value
