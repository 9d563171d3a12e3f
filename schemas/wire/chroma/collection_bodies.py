"""Tenants, databases and collections in Chroma's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.errors import InvalidInputError
from schemas.metadata import check_collection_metadata
from schemas.names import check_collection_name, check_namespace_name, parts_of_name
from schemas.records import Collection, Database, Metadata
from schemas.storage.outcomes import CollectionOutcome
from schemas.wire.chroma.configuration import configuration_answer, configuration_of, schema_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewCollection:
    name: str
    metadata: Metadata
    metric: str
    configuration: Json
    get_or_create: bool


@dataclass(frozen=True, slots=True)
class CollectionChange:
    """What of a collection is to be changed; None stays."""

    name: str | None
    metadata: Metadata | None
    configuration: Json | None


def new_namespace(body: Json) -> str:
    """Return the name of a new tenant or database."""
    return check_namespace_name(body.get("name"))


def new_collection(body: Json) -> NewCollection:
    name = check_collection_name(body.get("name"))
    metadata = _metadata(body.get("metadata"), "metadata") or {}
    get_or_create = body.get("get_or_create")
    if not isinstance(get_or_create, bool | None):
        raise InvalidInputError("get_or_create must be true or false", code="invalid_field", field="get_or_create")
    metric, configuration = configuration_of(body.get("configuration"), body.get("schema"), metadata)
    return NewCollection(name, metadata, metric, configuration, bool(get_or_create))


def collection_change(body: Json) -> CollectionChange:
    name = body.get("new_name")
    return CollectionChange(
        None if name is None else check_collection_name(name, field="new_name"),
        _new_metadata(body.get("new_metadata")),
        body.get("new_configuration"),
    )


def database_answer(found: Database) -> Json:
    return {"id": found.id, "name": found.name, "tenant": found.tenant}


def databases_answer(found: Sequence[Database]) -> list[Json]:
    return [database_answer(each) for each in found]


def collection_answer(found: Collection | CollectionOutcome) -> Json:
    tenant, database, name = parts_of_name(found.name)
    return {
        "id": found.id,
        "name": name,
        "configuration_json": configuration_answer(found),
        "schema": schema_of(found),
        "metadata": found.metadata or None,
        "dimension": found.dimension,
        "tenant": tenant,
        "database": database,
        "log_position": 0,
        "version": 0,
    }


def collections_answer(found: Sequence[Collection]) -> list[Json]:
    return [collection_answer(each) for each in found]


def indexing_answer(documents: int, waiting: int) -> Json:
    """Spell how far the index is: of the writes that it was told of, how many it has."""
    done = max(0, documents - waiting)
    return {
        "num_indexed_ops": done,
        "num_unindexed_ops": waiting,
        "total_ops": done + waiting,
        "op_indexing_progress": 1.0 if not waiting else done / (done + waiting),
    }


def _new_metadata(given: Any) -> Metadata | None:
    """Return the metadata that take the place of a collection's: a key with null is one that is not wanted."""
    if isinstance(given, dict) and None in given.values():
        return check_collection_metadata(
            {key: value for key, value in given.items() if value is not None}, field="new_metadata"
        )
    return _metadata(given, "new_metadata")


def _metadata(given: Any, field: str) -> Metadata | None:
    if given is None:
        return None
    metadata = check_collection_metadata(given, field=field)
    if not metadata:
        raise InvalidInputError(f"Expected {field} to be a non-empty object", code="invalid_metadata", field=field)
    for key, value in metadata.items():
        if value is None:
            raise InvalidInputError(f"{field}.{key} must not be null", code="invalid_metadata", field=field, path=key)
    return metadata
