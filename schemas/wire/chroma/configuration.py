"""The configuration of a collection, as Chroma's clients give and read it.

A client finds its embedding function again by what it gave, so that comes back unchanged. The parameters of the index
are kept and answered, too; the index itself is the service's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.records import METRICS, Collection
from schemas.storage.outcomes import CollectionOutcome

Json = dict[str, Any]
Configured = Collection | CollectionOutcome

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
    """Return (metric, configuration) of a new collection by what its client gave. Raises InvalidInputError."""
    given, described = _checked(given, "configuration"), _vector_index(schema)
    hnsw, spann = given.get("hnsw"), given.get("spann")
    if hnsw is not None and spann is not None:
        raise _wrong("Multiple vector index configurations provided", "configuration")
    index = {**_index(described.get("hnsw"), "schema"), **_index(hnsw, "configuration.hnsw")}
    space = (hnsw or {}).get("space") or (spann or {}).get("space") or described.get("space")
    if hnsw is None and spann is None and not described:
        space = space or metadata.get(SPACE)
        index = {**_of_metadata(metadata), **index}
    space = space or DEFAULT_SPACE
    if space not in METRICS:
        raise _wrong(f"space must be one of {', '.join(METRICS)}", "configuration.hnsw.space")
    function = given.get("embedding_function", described.get("embedding_function"))
    return str(space), {"hnsw": {**DEFAULTS, **index}, "embedding_function": function}


def changed_configuration(collection: Configured, changes: Json) -> str:
    """Return the configuration, as JSON, after changes. Raises InvalidInputError for one that cannot be changed."""
    changes = _checked(changes, "new_configuration")
    hnsw = changes.get("hnsw") or {}
    for name in UNCHANGEABLE:
        if name in hnsw:
            raise _wrong(f"{name} of a collection cannot be changed", f"new_configuration.hnsw.{name}")
    known = _configuration(collection)
    after = {**known, "hnsw": {**known["hnsw"], **_index(hnsw, "new_configuration.hnsw")}}
    if changes.get("embedding_function") is not None:
        after["embedding_function"] = changes["embedding_function"]
    return orjson.dumps(after).decode()


def configuration_answer(collection: Configured) -> Json:
    known = _configuration(collection)
    return {
        "hnsw": {"space": collection.metric, **known["hnsw"]},
        "spann": None,
        "embedding_function": known["embedding_function"],
    }


def schema_answer(collection: Configured) -> Json:
    """Return the schema that Chroma answers for a collection with this configuration; its clients read it."""
    known = _configuration(collection)
    function = known["embedding_function"]
    index = {**known["hnsw"], "num_threads": 2, "batch_size": 100}
    vectors = {"space": collection.metric, **({} if function is None else {"embedding_function": function})}
    return {
        "defaults": {
            "string": {"fts_index": _switch(False), "string_inverted_index": _switch(True)},
            "float_list": {"vector_index": {"enabled": False, "config": {**vectors, "hnsw": index}}},
            "sparse_vector": {
                "sparse_vector_index": {
                    "enabled": False,
                    "config": {"embedding_function": {"type": "unknown"}, "bm25": False},
                }
            },
            "int": {"int_inverted_index": _switch(True)},
            "float": {"float_inverted_index": _switch(True)},
            "bool": {"bool_inverted_index": _switch(True)},
        },
        "keys": {
            "#document": {"string": {"fts_index": _switch(True), "string_inverted_index": _switch(False)}},
            "#embedding": {
                "float_list": {
                    "vector_index": {
                        "enabled": True,
                        "config": {**vectors, "source_key": "#document", "hnsw": index},
                    }
                }
            },
        },
    }


def _switch(enabled: bool) -> Json:
    return {"enabled": enabled, "config": {}}


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


def _vector_index(schema: Json | None) -> Json:
    """Return what a schema says of the vectors."""
    if schema is None:
        return {}
    found: Any = _checked(schema, "schema")
    for key in ("keys", "#embedding", "float_list", "vector_index", "config"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _checked(value: Any, field: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(f"{field} must be an object", field)
    return value


def _wrong(sentence: str, field: str) -> InvalidInputError:
    return InvalidInputError(sentence, code="invalid_field", field=field)
