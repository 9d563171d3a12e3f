"""Names of collections: Chroma's rule, checked here so that every part refuses the same ones."""

from __future__ import annotations

import ipaddress
import re

from schemas.errors import InvalidInputError

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
MAX_MODEL_CHARACTERS = 256


def check_collection_name(name: object) -> str:
    """`name` itself when it is 3-512 of `[a-zA-Z0-9._-]`, alphanumeric at both ends, without `..`, not an IPv4."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError("Collection name is required", code="invalid_name", field="name")
    if not _NAME.fullmatch(name) or ".." in name or _is_ipv4(name):
        raise InvalidInputError(
            "Collection name must be 3-512 characters from [a-zA-Z0-9._-], start and end with a letter or digit, "
            "contain no '..' and not be an IPv4 address",
            code="invalid_name",
            field="name",
        )
    return name


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def is_model_name(text: str) -> bool:
    """Whether a text may be sent as the name of a model."""
    return 1 <= len(text) <= MAX_MODEL_CHARACTERS and bool(text.strip()) and text.isprintable()
