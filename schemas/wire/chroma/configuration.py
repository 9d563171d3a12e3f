"""The configuration of a collection, as Chroma's clients give and read it.

A client finds its embedding function again by what it gave, so that comes back unchanged. The parameters of the index
are kept and answered, too; the index itself is the service's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.metadata import MAX_COLLECTION_BYTES, MAX_METADATA_DEPTH, is_deeper_than
from schemas.records import METRICS
from schemas.wire.chroma.index_schema import SCHEMA, Configured, kept_schema, schema_answer, vectors_of

Json = dict[str, Any]

SPACE = "hnsw:space"
DEFAULT_SPACE = "l2"
INDEX: Mapping[str, tuple[type, ...]] = {
    "ef_construction": (int,),
    "ef_search": (int,),
    "max_neighbors": (int,),
    "resize_factor": (int, float),
    "sync_threshold": (int,),
}
"""The parameters that are answered, with their types."""
DEFAULTS: Json = {
    "ef_construction": 100,
    "ef_search": 100,
    "max_neighbors": 16,
    "resize_factor": 1.2,
    "sync_threshold": 1000,
}
OTHERS = ("space", "num_threads", "batch_size")
OLD_NAMES = {"M": "max_neighbors", "construction_ef": "ef_construction", "search_ef": "ef_search"}
"""What `hnsw:` keys of the metadata call parameters."""
UNCHANGEABLE = ("space", "ef_construction")


def configuration_of(given: Json | None, schema: Json | None, metadata: Json) -> tuple[str, Json]:
    """Return (metric, configuration) of a new collection by what its client gave. What a schema says of the vectors
    counts before the configuration, which Chroma's clients always send. Raises InvalidInputError."""
    given, kept = _checked(given, "configuration"), kept_schema(schema)
    described = vectors_of(kept)
    hnsw, spann = given.get("hnsw"), given.get("spann")
    if hnsw is not None and spann is not None:
        raise _wrong("Multiple vector index configurations provided", "configuration")
    index = _index(hnsw, "configuration.hnsw")
    _checked(spann, "configuration.spann")
    space = (hnsw or {}).get("space") or (spann or {}).get("space")
    if described:
        index = _index(described.get("hnsw"), "schema")
        # A client sends the defaults of the one that it was not given.
        space = described.get("space") if space in (None, DEFAULT_SPACE) else space
    elif hnsw is None and spann is None:
        space = metadata.get(SPACE)
        index = _of_metadata(metadata)
    space = space or DEFAULT_SPACE
    if space not in METRICS:
        raise _wrong(f"space must be one of {', '.join(METRICS)}", "configuration.hnsw.space")
    function = _function(given.get("embedding_function"), described.get("embedding_function"))
    configuration = {"hnsw": {**DEFAULTS, **index}, "embedding_function": function}
    return str(space), _kept(configuration if kept is None else {**configuration, SCHEMA: kept}, "configuration")


def _function(given: Any, described: Any) -> Any:
    """Return the embedding function of the two that a client gives. Raises InvalidInputError when they differ and
    neither is the default one."""
    if described is None or _is_default(described):
        return given if given is not None else described
    if given is not None and not _is_default(given) and given != described:
        raise _wrong("The schema and the configuration have conflicting embedding functions", "schema")
    return described


def _is_default(function: Any) -> bool:
    return isinstance(function, dict) and function.get("name") == "default"


def changed_configuration(collection: Configured, changes: Json) -> str:
    """Return the configuration, as JSON, after changes. Raises InvalidInputError for one that cannot be changed."""
    changes = _checked(changes, "new_configuration")
    hnsw = _checked(changes.get("hnsw"), "new_configuration.hnsw")
    for name in UNCHANGEABLE:
        if name in hnsw:
            raise _wrong(f"{name} of a collection cannot be changed", f"new_configuration.hnsw.{name}")
    known = _configuration(collection)
    after = {**known, "hnsw": {**known["hnsw"], **_index(hnsw, "new_configuration.hnsw")}}
    if changes.get("embedding_function") is not None:
        after["embedding_function"] = changes["embedding_function"]
    return orjson.dumps(_kept(after, "new_configuration")).decode()


def configuration_answer(collection: Configured) -> Json:
    known = _configuration(collection)
    return {
        "hnsw": {"space": collection.metric, **known["hnsw"]},
        "spann": None,
        "embedding_function": known["embedding_function"],
    }


def schema_of(collection: Configured) -> Json:
    """Return the schema that clients read of a collection."""
    known = _configuration(collection)
    return schema_answer(collection, known["hnsw"], known["embedding_function"])


def _configuration(collection: Configured) -> Json:
    if collection.configuration is None:
        return {"hnsw": {**DEFAULTS, **_of_metadata(collection.metadata)}, "embedding_function": None}
    known: Json = orjson.loads(collection.configuration)
    return known


def _of_metadata(metadata: Json) -> Json:
    """Return the parameters that the metadata gives in the way of Chroma's early releases."""
    found = {}
    for key, value in metadata.items():
        name = key.removeprefix("hnsw:")
        name = OLD_NAMES.get(name, name)
        if key.startswith("hnsw:") and name in INDEX and _fits(name, value):
            found[name] = value
    return found


def _index(given: Any, field: str) -> Json:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise _wrong(f"{field} must be an object", field)
    for name, value in given.items():
        if name not in INDEX and name not in OTHERS:
            known = ", ".join((*INDEX, *OTHERS))
            raise _wrong(f"{field}.{name} is unknown, expected one of {known}", f"{field}.{name}")
        if name in INDEX and value is not None and not _fits(name, value):
            raise _wrong(f"{field}.{name} must be a positive number", f"{field}.{name}")
    return {name: given[name] for name in INDEX if given.get(name) is not None}


def _fits(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, INDEX[name]):
        return False
    return isinstance(value, int | float) and value > 0


def _kept(configuration: Json, field: str) -> Json:
    """Return a configuration that every list of collections can answer. Raises InvalidInputError for another."""
    function = configuration["embedding_function"]
    if function is not None and not isinstance(function, dict):
        raise _wrong("embedding_function must be an object", f"{field}.embedding_function")
    if is_deeper_than(configuration, MAX_METADATA_DEPTH):
        raise _wrong(f"{field} is nested deeper than {MAX_METADATA_DEPTH} levels", field)
    size = len(orjson.dumps(configuration))
    if size > MAX_COLLECTION_BYTES:
        raise _wrong(f"{field} has {size:,} bytes, {MAX_COLLECTION_BYTES:,} are allowed", field)
    return configuration


def _checked(value: Any, field: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(f"{field} must be an object", field)
    return value


def _wrong(sentence: str, field: str) -> InvalidInputError:
    return InvalidInputError(sentence, code="invalid_field", field=field)
