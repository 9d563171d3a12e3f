"""Who is asking."""

from __future__ import annotations

from schemas.owners import OPEN


def owner() -> str:
    """Whose is what this request makes, and whose things it may see. The service knows nobody by name yet: all are
    one."""
    return OPEN
