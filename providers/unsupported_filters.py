"""The refusal of filters that a provider's service cannot answer exactly."""

from __future__ import annotations

from schemas.errors import UnsupportedError

SAFE_INTEGER = 2**53
"""The number from which on a float cannot tell one integer from the next."""


class UnsupportedFilterError(UnsupportedError):
    """A filter cannot be answered exactly; `details.operator` and `details.path` (the metadata field) name its faulty
    part."""

    code = "unsupported_filter"

    def __init__(self, service: str, operator: str, path: str, reason: str) -> None:
        super().__init__(
            f"{service} cannot answer {operator} on '{path}': {reason}", field="where", operator=operator, path=path
        )


def check_number(service: str, operator: str, path: str, number: int | float) -> None:
    """Raise UnsupportedFilterError when services would round the number."""
    if abs(number) >= SAFE_INTEGER:
        raise UnsupportedFilterError(service, operator, path, "the number is beyond 2^53 and would be rounded")
