"""Checks names of collections by Chroma's rule, so that every part refuses the same ones; and names of models."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.errors import InvalidInputError

MAX_COLLECTIONS = 100
"""The most collections that a question names."""
MAX_PATTERNS = 1_000
"""The most names and beginnings of collections that a caller's rights have."""
DEFAULT_TENANT, DEFAULT_DATABASE = "default_tenant", "default_database"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
NAME_BEGINNING = re.compile(r"[a-zA-Z0-9._-]{0,512}\Z")
FIRST_NAME = "0"
"""What sorts before all names, and after what no caller names: those of collections that are not complete yet."""
AFTER_NAMES = "~"
"""A character that sorts after all characters of names."""
_SLASHES = 3
"""How many a full name has in another database than the default one."""
_PREFIX = re.compile(r"([a-zA-Z0-9][a-zA-Z0-9._-]{0,511})?\*")
_PREFIX_ELSEWHERE = re.compile(r"(/[a-zA-Z0-9._-]{0,512}){1,3}\*")
"""The beginning of names in other databases than the default one: `/tenant/*`, `/tenant/database/*` and so on."""
MAX_MODEL_CHARACTERS = 256


def check_collection_name(name: object, *, field: str = "name") -> str:
    """Return `name` when it is 3-512 of `[a-zA-Z0-9._-]`, alphanumeric at both ends, without `..`, not an IPv4.

    Raises InvalidInputError, which names `field`, for any other.
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError("Collection name is required", code="invalid_name", field=field)
    if not _NAME.fullmatch(name) or ".." in name or _is_ipv4(name):
        raise InvalidInputError(
            "Collection name must be 3-512 characters from [a-zA-Z0-9._-], start and end with a letter or digit, "
            "contain no '..' and not be an IPv4 address",
            code="invalid_name",
            field=field,
        )
    return name


def check_namespace_name(name: object, *, field: str = "name") -> str:
    """Return the name of a tenant or database when it is one that a collection may have, too. Raises InvalidInputError
    for any other."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise InvalidInputError(
            "Expected a name containing 3-512 characters from [a-zA-Z0-9._-], starting and ending with a character in "
            f"[a-zA-Z0-9]. Got: {str(name)[:100]}",
            code="invalid_name",
            field=field,
        )
    return name


def check_database(text: str, *, field: str = "database") -> tuple[str, str]:
    """Return (tenant, database) of `database`, which is the default tenant's, or `tenant/database`.

    Raises InvalidInputError, which names `field`, for a text that is neither.
    """
    tenant, slash, database = text.rpartition("/")
    return check_namespace_name(tenant if slash else DEFAULT_TENANT, field=field), check_namespace_name(
        database, field=field
    )


def full_name(tenant: str, database: str, name: str) -> str:
    """Return the name of a collection as the whole service knows it: its own in the default database, and in others
    `/tenant/database/name`, which no collection of the default one can have."""
    if (tenant, database) == (DEFAULT_TENANT, DEFAULT_DATABASE):
        return name
    return f"/{tenant}/{database}/{name}"


def check_full_name(full: object, *, field: str = "name") -> None:
    """Raise InvalidInputError, which names `field`, for what `full_name` makes of no tenant, database and collection
    that there can be."""
    if not isinstance(full, str) or not is_elsewhere(full):
        check_collection_name(full, field=field)
        return
    tenant, database, name = parts_of_name(full)
    for each in (tenant, database):
        check_namespace_name(each, field=field)
    check_collection_name(name, field=field)


def is_elsewhere(full: str) -> bool:
    """Return whether a full name is one of a collection of another database than the default one."""
    return full.startswith("/") and full.count("/") == _SLASHES


def parts_of_name(full: str) -> tuple[str, str, str]:
    """Return (tenant, database, name) of what `full_name` made."""
    if not full.startswith("/"):
        return DEFAULT_TENANT, DEFAULT_DATABASE, full
    _, tenant, database, name = full.split("/", 3)
    return tenant, database, name


def is_pattern(name: str) -> bool:
    """Return whether a name ends with `*` and stands for all names that begin like it."""
    return name.endswith("*")


def matches_pattern(name: str, pattern: str) -> bool:
    """Return whether a name equals `pattern`, or begins like it when it ends with `*`."""
    return name.startswith(pattern[:-1]) if is_pattern(pattern) else name == pattern


def are_within(names: Iterable[str], patterns: Sequence[str]) -> bool:
    """Return whether all that `names` stand for matches one of `patterns`; each may end with `*`."""
    # A beginning matches a shorter one, or the same, as a name would.
    return all(any(matches_pattern(name, pattern) for pattern in patterns) for name in names)


def asked_collections(given: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the collections that a question names under `collections`, or under the older `collection`.

    Each is a name or a beginning with `*` after it. None means that the question names no collection. Raise
    InvalidInputError with field and position.
    """
    field = "collection" if given.get("collections") is None else "collections"
    names = given.get(field)
    if names is None:
        return None
    if given.get("collection") is not None and field == "collections":
        raise InvalidInputError(
            "collections goes without collection: they say the same", code="invalid_field", field="collections"
        )
    names = (names,) if isinstance(names, str) else tuple(names)
    if not 1 <= len(names) <= MAX_COLLECTIONS:
        without = "" if names else "; without it all text collections are asked"
        raise InvalidInputError(
            f"{field} must name 1 to {MAX_COLLECTIONS} collections{without}", code="invalid_field", field=field
        )
    return check_collection_patterns(names, field=field)


def check_collection_patterns(names: Iterable[Any], *, field: str) -> tuple[str, ...]:
    """Return the names when each is one of a collection or the beginning of one with `*` after it.

    Raises InvalidInputError, which names `field` and position, for the first that is neither.
    """
    checked = tuple(names)
    for index, name in enumerate(checked):
        try:
            if not isinstance(name, str) or not (_PREFIX.fullmatch(name) or _PREFIX_ELSEWHERE.fullmatch(name)):
                check_full_name(name)
        except InvalidInputError as error:
            sentence = f"{error.message}. The beginning of a name has '*' after it"
            raise InvalidInputError(sentence, code="invalid_name", field=field, index=index) from None
    return checked


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def is_model_name(text: str) -> bool:
    """Return whether a text may be sent as the name of a model."""
    return 1 <= len(text) <= MAX_MODEL_CHARACTERS and bool(text.strip()) and text.isprintable()


def spellings_of_id(document_id: str) -> list[str]:
    """Return the spellings that the id of a document may be stored in: documents of the contract *rules* have UUIDs."""
    try:
        known = uuid.UUID(document_id)
    except ValueError:
        return [document_id]
    return list(dict.fromkeys((document_id, str(known), known.hex)))
