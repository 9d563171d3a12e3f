"""Numbers of things in sentences."""


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 chunk`, `2 chunks`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
