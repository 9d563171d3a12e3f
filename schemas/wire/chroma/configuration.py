"""The configuration of a collection, as Chroma's clients give and read it.

A client finds its embedding function again by what it gave, so that comes back unchanged. The parameters of the index
are kept and answered, too; the index itself is the service's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.metadata import MAX_COLLECTION_BYTES, MAX_METADATA_DEPTH, SHOWN_CHARACTERS, is_deeper_than
from schemas.records import METRICS, Collection
from schemas.wire.chroma.index_schema import SCHEMA, VECTORS, Configured, kept_schema, schema_answer, vectors_of
from schemas.wire.chroma.metadata_keys import check_keys

Json = dict[str, Any]

SPACE, DEFAULT_SPACE = "hnsw:space", "l2"
DEFAULTS: Json = {
    "ef_construction": 100,
    "ef_search": 100,
    "max_neighbors": 16,
    "resize_factor": 1.2,
    "sync_threshold": 1000,
}
"""The parameters of the index that are answered."""
ALL_DEFAULTS: Json = {"space": DEFAULT_SPACE, **DEFAULTS, "batch_size": 100}
OF_HNSW = (*ALL_DEFAULTS, "num_threads")
OF_SPANN = (
    *("space", "search_nprobe", "write_nprobe", "ef_construction", "ef_search", "max_neighbors"),
    *("reassign_neighbor_count", "split_threshold", "merge_threshold"),
)
SCHEMA_OF_SPANN = (
    *OF_SPANN[1:],
    *("search_rng_factor", "search_rng_epsilon", "nreplica_count", "write_rng_factor", "write_rng_epsilon", "quantize"),
    *("num_samples_kmeans", "initial_lambda", "num_centers_to_merge_to", "center_drift_threshold"),
)
CHANGEABLE_OF_SPANN = ("search_nprobe", "ef_search")
UNCHANGEABLE = ("space", "ef_construction")
MAY_BE_ZERO = ("num_threads", "batch_size")
OLD_NAMES = {
    "hnsw:M": "max_neighbors",
    "hnsw:construction_ef": "ef_construction",
    "hnsw:search_ef": "ef_search",
    **{f"hnsw:{name}": name for name in ("space", "num_threads", "batch_size", "resize_factor", "sync_threshold")},
}
"""What metadata calls parameters in the way of Chroma's early releases."""
AT_LEAST_TWO = ("hnsw:batch_size", "hnsw:sync_threshold")
KINDS = {"space": f"one of {', '.join(METRICS)}", "resize_factor": "a positive number"}
FUNCTIONS = ("legacy", "known", "unknown")
"""The types of embedding functions; a known one has a name and a config."""


def configuration_of(given: Json | None, schema: Json | None, metadata: Json) -> tuple[str, Json]:
    """Return (metric, configuration) of a new collection by what its client gave.

    The metadata counts where the configuration has defaults only, which Chroma's clients always send, and so does the
    schema. Raises InvalidInputError, also where both say something.
    """
    given, kept = _checked(given, "configuration"), kept_schema(schema)
    check_metadata(metadata, "metadata")
    index, spann = _indexes(given, "configuration", OF_HNSW, OF_SPANN)
    if given.get("spann") is not None:
        index = {"space": spann.get("space", DEFAULT_SPACE)}
    elif index.items() <= ALL_DEFAULTS.items():
        index = _of_metadata(metadata)
    function, described = given.get("embedding_function"), vectors_of(kept)
    _check_function(function, "configuration.embedding_function")
    _check_function(described.get("embedding_function"), f"{VECTORS}.embedding_function")
    of_schema = _index({"space": described.get("space")}, VECTORS, OF_HNSW)
    of_schema |= _index(described.get("hnsw"), f"{VECTORS}.hnsw", [name for name in OF_HNSW if name != "space"])
    _index(described.get("spann"), f"{VECTORS}.spann", SCHEMA_OF_SPANN)
    index = _either(index, of_schema, lambda each: each.items() <= ALL_DEFAULTS.items())
    function = _either(function, described.get("embedding_function"), lambda each: each.get("name") == "default")
    configuration = {"hnsw": {**DEFAULTS, **_answered(index)}, "embedding_function": function}
    return str(index.get("space", DEFAULT_SPACE)), _kept(
        configuration if kept is None else {**configuration, SCHEMA: kept}, "configuration"
    )


def check_metadata(metadata: Json, field: str) -> None:
    """Raise InvalidInputError for metadata that would configure a collection, and does not: an `hnsw:` key that is
    unknown or has a value of another kind, and an object."""
    for key, value in check_keys(metadata, field).items():
        name = f"{field}.{key[:SHOWN_CHARACTERS]}"
        if key.startswith("hnsw:") and key not in OLD_NAMES:
            raise _wrong(f"{name} is unknown, expected one of {', '.join(OLD_NAMES)}", name)
        if key in OLD_NAMES:
            _check_parameter(OLD_NAMES[key], value, name)
            if key in AT_LEAST_TWO and value < 2:
                raise _wrong(f"{name} must be at least 2", name)
        if isinstance(value, dict):
            raise _wrong(f"{name} must not be an object; a collection is configured by 'configuration'", name)


def _either(given: Json | None, described: Json | None, is_default: Callable[[Json], bool]) -> Any:
    """Return what the configuration or the schema says. Raises InvalidInputError when both do, and not the same."""
    if not described or is_default(described):
        return given or described
    if given and not is_default(given) and given != described:
        raise _wrong("Cannot set both collection config and schema simultaneously", "schema")
    return described


def changed_configuration(collection: Configured, changes: Json) -> str:
    """Return the configuration, as JSON, after changes. Raises InvalidInputError for one that cannot be changed."""
    changes = _checked(changes, "new_configuration")
    index, _ = _indexes(changes, "new_configuration", OF_HNSW, CHANGEABLE_OF_SPANN)
    for name in UNCHANGEABLE:
        if name in index:
            raise _wrong(f"{name} of a collection cannot be changed", f"new_configuration.hnsw.{name}")
    known = _configuration(collection)
    after = {**known, "hnsw": {**known["hnsw"], **_answered(index)}}
    if changes.get("embedding_function") is not None:
        after["embedding_function"] = changes["embedding_function"]
        _check_function(after["embedding_function"], "new_configuration.embedding_function")
    return orjson.dumps(_kept(after, "new_configuration")).decode()


def check_changed_metadata(collection: Collection, metadata: Json) -> None:
    """Raise InvalidInputError for new metadata of a collection that would configure it, and does not. What it has
    already may be sent again."""
    changed = {key: value for key, value in metadata.items() if collection.metadata.get(key) != value}
    check_metadata(changed, "new_metadata")
    if changed.get(SPACE, collection.metric) != collection.metric:
        raise _wrong("space of a collection cannot be changed", f"new_metadata.{SPACE}")


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
        return {"hnsw": {**DEFAULTS, **_answered(_of_metadata(collection.metadata))}, "embedding_function": None}
    known: Json = orjson.loads(collection.configuration)
    return known


def _of_metadata(metadata: Json) -> Json:
    """Return the parameters that metadata gives, but for those that are wrong: it may be older than the checks."""
    given = {OLD_NAMES[key]: value for key, value in metadata.items() if key in OLD_NAMES}
    return {name: value for name, value in given.items() if _fits(name, value)}


def _indexes(given: Json, field: str, of_hnsw: Sequence[str], of_spann: Sequence[str]) -> tuple[Json, Json]:
    """Return the parameters of HNSW and of SPANN, of which only one may be given."""
    if given.get("hnsw") is not None and given.get("spann") is not None:
        raise _wrong("Multiple vector index configurations provided", field)
    return _index(given.get("hnsw"), f"{field}.hnsw", of_hnsw), _index(given.get("spann"), f"{field}.spann", of_spann)


def _index(given: Any, field: str, known: Sequence[str]) -> Json:
    """Return the parameters that are given, of those that are known; null is none."""
    for name, value in _checked(given, field).items():
        here = f"{field}.{name[:SHOWN_CHARACTERS]}"
        if name not in known:
            raise _wrong(f"{here} is unknown, expected one of {', '.join(known)}", here)
        if value is not None:
            _check_parameter(name, value, here)
    return {name: value for name, value in (given or {}).items() if value is not None}


def _answered(index: Json) -> Json:
    return {name: value for name, value in index.items() if name in DEFAULTS}


def _check_parameter(name: str, value: Any, field: str) -> None:
    if not _fits(name, value):
        kind = KINDS.get(name, "a positive whole number")
        raise _wrong(f"{field} must be {kind}", field)


def _fits(name: str, value: Any) -> bool:
    if name == "space":
        return value in METRICS
    if isinstance(value, bool) or not isinstance(value, int | float if name == "resize_factor" else int):
        return False
    return value >= 0 if name in MAY_BE_ZERO else value > 0


def _kept(configuration: Json, field: str) -> Json:
    """Return a configuration that every list of collections can answer. Raises InvalidInputError for another."""
    if is_deeper_than(configuration, MAX_METADATA_DEPTH):
        raise _wrong(f"{field} is nested deeper than {MAX_METADATA_DEPTH} levels", field)
    size = len(orjson.dumps(configuration))
    if size > MAX_COLLECTION_BYTES:
        raise _wrong(f"{field} has {size:,} bytes, {MAX_COLLECTION_BYTES:,} are allowed", field)
    return configuration


def _check_function(function: Any, field: str) -> None:
    if function is None:
        return
    if _checked(function, field).get("type") not in FUNCTIONS:
        raise _wrong(f"{field}.type must be one of {', '.join(FUNCTIONS)}", f"{field}.type")
    if function["type"] == "known" and (not isinstance(function.get("name"), str) or "config" not in function):
        raise _wrong(f"{field} needs a name, a string, and a config where its type is known", field)


def _checked(value: Any, field: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(f"{field} must be an object", field)
    return value


def _wrong(sentence: str, field: str) -> InvalidInputError:
    return InvalidInputError(sentence, code="invalid_field", field=field)
