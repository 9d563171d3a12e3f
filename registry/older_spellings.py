"""Configurations spelled as the first release's forms spelled them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.configuration import JsonSchema


def current_spelling(config: Mapping[str, Any], provider: str, schema: JsonSchema) -> dict[str, Any]:
    """Return the configuration without a `provider` that only repeats the provider, and with `timeout` (milliseconds)
    as `timeout_seconds`.

    A value that cannot be meant that way stays, for the schema to report.
    """
    known = schema.get("properties", {})
    found = dict(config)
    if "provider" not in known and found.get("provider") == provider:
        del found["provider"]
    timeout = found.get("timeout")
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if is_number and "timeout" not in known and "timeout_seconds" in known and found.get("timeout_seconds") is None:
        found["timeout_seconds"] = found.pop("timeout") / 1000
    return found
