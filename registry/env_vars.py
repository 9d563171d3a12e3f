"""What a form may know of environment variables: which may be used and which are set, never what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.placeholders import Placeholders
from schemas.configuration import JsonSchema

MASK = "********"
MAX_NAMES = 1000
MIN_NAME_CHARS = 3
"""A part of a variable's name that is no longer says nothing about a provider."""

_SECRET_ENDINGS = ("API_KEY", "KEY", "TOKEN", "SECRET", "PASSWORD")
_URL_ENDINGS = ("URL", "HOST", "ENDPOINT")


def listed(placeholders: Placeholders) -> list[dict[str, Any]]:
    """`{name, value, exists}` of the variables that are allowed and set; the value is always the mask."""
    return [{"name": name, "value": MASK, "exists": True} for name in placeholders.available()]


def validated(placeholders: Placeholders, names: Sequence[str]) -> list[dict[str, Any]]:
    """`{name, allowed, set}` of each name. Whether one that is not allowed is set is nobody's business: false."""
    available = set(placeholders.available())
    return [
        {"name": name, "allowed": placeholders.is_allowed(name), "set": name in available}
        for name in list(dict.fromkeys(names))[:MAX_NAMES]
    ]


def suggested(placeholders: Placeholders, provider: str, field: str, schema: JsonSchema) -> list[dict[str, Any]]:
    """`{name, set, exists, placeholder}` of the allowed variables that fit a field, best first: the schema's own
    example, set or not, then those that are set, the provider's before others."""
    described = schema.get("properties", {}).get(field, {})
    examples = [name for each in described.get("examples", ()) for name in placeholders.names(each)]
    available = placeholders.available()
    endings = _endings(field, described)
    fitting = [name for name in available if name.endswith(endings)]
    fitting.sort(key=lambda name: (not _is_of(name, provider), not name.endswith(endings[0]), name))
    names = dict.fromkeys([*(name for name in examples if placeholders.is_allowed(name)), *fitting])
    return [
        {"name": name, "set": name in available, "exists": name in available, "placeholder": f"${{{name}}}"}
        for name in names
    ]


def _is_of(name: str, provider: str) -> bool:
    """Whether a variable is called after a provider: CHROMA_HOST after chromadb."""
    return any(len(part) > MIN_NAME_CHARS and provider.upper().startswith(part) for part in name.split("_"))


def _endings(field: str, described: JsonSchema) -> tuple[str, ...]:
    if described.get("writeOnly"):
        return _SECRET_ENDINGS
    return _URL_ENDINGS if described.get("format") == "uri" else (field.upper(),)
