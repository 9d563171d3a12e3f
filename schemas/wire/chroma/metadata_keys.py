"""The keys that metadata may have in Chroma's protocol."""

from __future__ import annotations

from schemas.errors import InvalidInputError
from schemas.metadata import SHOWN_CHARACTERS
from schemas.records import Metadata

OF_FILTERS = ("#", "$")
"""How names begin that mean something else than a field where they stand in a filter."""


def check_keys(metadata: Metadata, field: str, index: int | None = None) -> Metadata:
    """Return metadata whose fields a filter can name. Raises InvalidInputError for others."""
    for key in metadata:
        if not key or key.startswith(OF_FILTERS):
            raise InvalidInputError(
                f"A key of {field} must not be empty or begin with '#' or '$': '{key[:SHOWN_CHARACTERS]}'",
                code="invalid_metadata",
                field=field,
                index=index,
                path=key[:SHOWN_CHARACTERS],
            )
    return metadata
