"""Environment variables as a form may know them: which may be used and which are set, never their values."""

from __future__ import annotations

from collections.abc import Sequence

from registry.placeholders.resolving import Placeholders
from schemas.configuration import JsonSchema
from schemas.connections import EnvVar

MAX_NAMES = 1000
MIN_NAME_CHARS = 3
"""A part of a variable's name must be longer than this to hint at a provider."""

_SECRET_ENDINGS = ("API_KEY", "KEY", "TOKEN", "SECRET", "PASSWORD")
_URL_ENDINGS = ("URL", "HOST", "ENDPOINT")


def judged(placeholders: Placeholders, names: Sequence[str]) -> list[EnvVar]:
    """Return what may be told of each name, at most `MAX_NAMES` of them.

    A name that is not allowed is never told to be set.
    """
    available = set(placeholders.available())
    return [
        EnvVar(name, placeholders.is_allowed(name), name in available)
        for name in list(dict.fromkeys(names))[:MAX_NAMES]
    ]


def suggested(placeholders: Placeholders, provider: str, field: str, schema: JsonSchema) -> list[EnvVar]:
    """Return the allowed variables that fit a field, best first.

    The schema's own examples come first, set or not. Then come the variables that are set, the provider's before
    others.
    """
    described = schema.get("properties", {}).get(field, {})
    examples = [name for each in described.get("examples", ()) for name in placeholders.names(each)]
    available = placeholders.available()
    endings = _endings(field, described)
    fitting = [name for name in available if name.endswith(endings)]
    fitting.sort(key=lambda name: (not _is_of(name, provider), not name.endswith(endings[0]), name))
    names = dict.fromkeys([*(name for name in examples if placeholders.is_allowed(name)), *fitting])
    return [EnvVar(name, True, name in available) for name in names]


def _is_of(name: str, provider: str) -> bool:
    """Return whether a variable is named after a provider, as CHROMA_HOST is after chromadb."""
    return any(len(part) > MIN_NAME_CHARS and provider.upper().startswith(part) for part in name.split("_"))


def _endings(field: str, described: JsonSchema) -> tuple[str, ...]:
    if described.get("writeOnly"):
        return _SECRET_ENDINGS
    return _URL_ENDINGS if described.get("format") == "uri" else (field.upper(),)
