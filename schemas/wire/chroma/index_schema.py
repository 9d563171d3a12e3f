"""The schema of a collection in Chroma's protocol: which indexes its client wants, key by key.

Here every key has an index, and texts can always be searched. A client that switches an index off wants such filters
refused, though, as a server of Chroma's refuses them; so a schema is kept, answered, and observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.metadata import SHOWN_CHARACTERS
from schemas.records import Collection
from schemas.storage.outcomes import CollectionOutcome
from schemas.where import And, Contains, Equals, In, Not, Or, Ordered, Scalar, TextContains, TextMatches, Where

Json = dict[str, Any]
Configured = Collection | CollectionOutcome

DOCUMENT, EMBEDDING = "#document", "#embedding"
OF_VECTORS = ("space", "embedding_function", "source_key", "hnsw", "spann")
CONFIGURED: dict[str, tuple[str, ...]] = {
    "vector_index": OF_VECTORS,
    "sparse_vector_index": ("embedding_function", "source_key", "bm25"),
    **dict.fromkeys(("fts_index", *(f"{kind}_inverted_index" for kind in ("string", "int", "float", "bool"))), ()),
}
"""What the configuration of each index may have."""
ONLY_ON = {"vector_index": EMBEDDING, "fts_index": DOCUMENT}
"""The one key that each of these indexes can be enabled for."""
RESERVED = ("cmek", "source_attached_function_id")
VECTORS = f"schema.keys.{EMBEDDING}.float_list.vector_index.config"
SCHEMA = "schema"
"""Under which name the kept configuration has the schema that was given."""
KINDS = ((bool, "bool"), (int, "int"), (float, "float"), (str, "string"))


def vectors_of(schema: Json | None) -> Json:
    """Return what a schema says of the vectors: their metric, embedding function and index."""
    found: Any = schema
    for key in ("keys", EMBEDDING, "float_list", "vector_index", "config"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def kept_schema(given: Any) -> Json | None:
    """Return a schema as it is kept, None where none was given. Raises InvalidInputError for what is none, and for an
    index of sparse vectors."""
    if given is None:
        return None
    if not isinstance(given, dict) or not given.keys() & {"defaults", "keys"}:
        raise _wrong("schema must be an object with defaults, keys, or both")
    for name in RESERVED:
        if given.get(name) is not None:
            raise _wrong(f"schema.{name} is not supported here")
    kept: Json = {name: _object(given.get(name), f"schema.{name}") for name in ("defaults", "keys")}
    _check_indexes(kept["defaults"], "schema.defaults", None)
    for key, indexes in kept["keys"].items():
        here = f"schema.keys.{key[:SHOWN_CHARACTERS]}"
        if key.startswith("#") and key not in (DOCUMENT, EMBEDDING):
            raise _wrong(f"{here} must not begin with '#', as only {DOCUMENT} and {EMBEDDING} do")
        kept["keys"][key] = _check_indexes(indexes, here, key)
    if vectors_of(kept).get("source_key", DOCUMENT) != DOCUMENT:
        raise _wrong(f"{VECTORS}.source_key must be {DOCUMENT}")
    return kept


def _check_indexes(given: Any, here: str, key: str | None) -> Json:
    """Return the indexes of a key, of all keys for None, by the kind of values. Raises InvalidInputError for what are
    none, and for those that a key cannot have."""
    checked = _object(given, here)
    for kind, indexes in checked.items():
        if key == EMBEDDING and kind != "float_list":
            raise _wrong(f"{here} may have float_list alone")
        for name, index in _object(indexes, f"{here}.{kind}").items():
            place = f"{here}.{kind}.{name}"
            is_enabled = _object(index, place).get("enabled", True)
            if not isinstance(is_enabled, bool):
                raise _wrong(f"{place}.enabled must be true or false")
            config = _object(index and index.get("config"), f"{place}.config")
            if (known := CONFIGURED.get(name)) is not None and (unknown := config.keys() - set(known)):
                raise _wrong(
                    f"{place}.config has {min(unknown)[:SHOWN_CHARACTERS]}: known are {', '.join(known) or 'none'}"
                )
            if name == "sparse_vector_index" and index and index.get("enabled"):
                raise _wrong("Sparse vector indexing is not enabled in local")
            if index and is_enabled and name in ONLY_ON and ONLY_ON[name] != key:
                raise _wrong(f"{place} can be enabled for {ONLY_ON[name]} alone")
            if index and is_enabled and (key, name) == (DOCUMENT, "string_inverted_index"):
                raise _wrong(f"{place} cannot be enabled")
    return checked


def _object(given: Any, here: str) -> Json:
    if not isinstance(given, dict | None):
        raise _wrong(f"{here} must be an object")
    return given or {}


def schema_answer(collection: Configured, hnsw: Json, function: Json | None) -> Json:
    """Return the schema of a collection with this index and embedding function, as its clients read it."""
    given = _given(collection)
    vectors: Json = {"space": collection.metric} | ({} if function is None else {"embedding_function": function})
    index = {**hnsw, "num_threads": 2, "batch_size": 100}
    own = {
        DOCUMENT: {"string": {"fts_index": _switch(True), "string_inverted_index": _switch(False)}},
        EMBEDDING: {
            "float_list": {
                "vector_index": {"enabled": True, "config": {**vectors, "source_key": DOCUMENT, "hnsw": index}}
            }
        },
    }
    defaults = {
        "string": {"fts_index": _switch(False), "string_inverted_index": _switch(True)},
        "float_list": {"vector_index": {"enabled": False, "config": {**vectors, "hnsw": index}}},
        "sparse_vector": {
            "sparse_vector_index": {
                "enabled": False,
                "config": {"embedding_function": {"type": "unknown"}, "bm25": False},
            }
        },
        **{kind: {f"{kind}_inverted_index": _switch(True)} for kind in ("int", "float", "bool")},
    }
    chosen = {
        kind: indexes for kind, indexes in given["defaults"].items() if kind not in ("float_list", "sparse_vector")
    }
    keys = {key: indexes for key, indexes in given["keys"].items() if key != EMBEDDING}
    return {"defaults": {**defaults, **chosen}, "keys": {**own, **keys}}


def check_filters(collection: Collection, where: Where) -> None:
    """Raise InvalidInputError for a filter on what has no index by the collection's schema."""
    given = _given(collection)
    if not given["keys"] and not given["defaults"]:
        return
    for leaf in leaves(where):
        if isinstance(leaf, TextContains | TextMatches):
            if _is_disabled(given, DOCUMENT, "string", "fts_index"):
                raise _wrong("Cannot filter by document: its fts index is disabled in the schema", "where_document")
        elif isinstance(leaf, Equals | Ordered | Contains | In):
            for value in leaf.values if isinstance(leaf, In) else (leaf.value,):
                kind = _kind(value)
                if _is_disabled(given, leaf.field, kind, f"{kind}_inverted_index"):
                    raise _wrong(
                        f"Cannot filter using metadata key '{leaf.field}' with type '{kind}' because indexing is "
                        "disabled in the schema",
                        "where",
                    )


def leaves(where: Where) -> Iterator[Where]:
    """Yield the conditions of a filter."""
    match where:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case _:
            yield where


def _is_disabled(given: Json, key: str, kind: str, index: str) -> bool:
    own = given["keys"].get(key, {})
    indexes = own if kind in own else given["defaults"]
    found = indexes.get(kind)
    found = found.get(index) if isinstance(found, dict) else None
    return isinstance(found, dict) and found.get("enabled") is False


def _kind(value: Scalar) -> str:
    return next(name for kind, name in KINDS if isinstance(value, kind))


def _given(collection: Configured) -> Json:
    if collection.configuration is not None:
        kept: Json | None = orjson.loads(collection.configuration).get(SCHEMA)
        if kept is not None:
            return kept
    return {"defaults": {}, "keys": {}}


def _switch(enabled: bool) -> Json:
    return {"enabled": enabled, "config": {}}


def _wrong(sentence: str, field: str = "schema") -> InvalidInputError:
    return InvalidInputError(sentence, code="invalid_field", field=field)
