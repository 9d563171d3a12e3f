"""JSON Pointers (RFC 6901), which say where in a JSON value something is."""

from __future__ import annotations


def escaped(part: str | int) -> str:
    """Return a member's name or an element's number as one step of a pointer."""
    return str(part).replace("~", "~0").replace("/", "~1")


def unescaped(part: str) -> str:
    """Return the name that a step stands for."""
    return part.replace("~1", "/").replace("~0", "~")
