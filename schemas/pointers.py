"""JSON Pointers (RFC 6901): where in a JSON value something is."""

from __future__ import annotations


def escaped(part: str | int) -> str:
    """A member's name or an element's number as one step of a pointer."""
    return str(part).replace("~", "~0").replace("/", "~1")


def unescaped(part: str) -> str:
    """The name that a step stands for."""
    return part.replace("~1", "/").replace("~0", "~")
