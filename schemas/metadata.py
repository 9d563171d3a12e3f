"""Checks metadata objects, and changes them as RFC 7396 says."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from schemas.errors import InvalidInputError

if TYPE_CHECKING:
    from schemas.records import Metadata

MAX_METADATA_DEPTH = 32
MAX_FIELDS = 2_000
"""The most fields of an object, with those of nested objects (`a.b`): each is a row of the index behind `where`."""
MAX_LIST_ELEMENTS = 2_000
MAX_VALUES = 20_000
"""The most fields and elements of lists together."""
MAX_KEY_BYTES = 512
MAX_COLLECTION_BYTES = 65_536
"""The largest metadata of a collection: the engine reads it with every write, every vector query answers with it."""
SHOWN_CHARACTERS = 60
"""The most characters of a key that an error quotes."""
ATTRIBUTES = "attributes."
"""Begins the names of metadata that others gave, and that the service has for something else."""
UNNAMEABLE = ("$", "#", "chroma:")
"""Begin the names that a filter takes for something else."""
RESERVED_PREFIXES = ("hnsw:", "chroma:")
"""Begin the keys of a collection's metadata that are the engine's own: callers may read them, but not set them."""
METRIC_KEY = "hnsw:space"
"""The one of these in which Chroma's clients, and services before 0.3, say the metric."""


def check_metadata(metadata: Any, *, field: str = "metadata", index: int | None = None) -> Metadata:
    """Return `metadata` when it is a JSON object within the bounds above; null counts as `{}`.

    Otherwise raise InvalidInputError, naming the field, the document's `index` and, in `path`, the key it is about.
    Numbers are finite already: the JSON reader refuses NaN and Infinity.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise InvalidInputError("metadata must be an object", code="invalid_metadata", field=field, index=index)
    if is_deeper_than(metadata, MAX_METADATA_DEPTH):
        raise InvalidInputError(
            f"metadata is nested deeper than {MAX_METADATA_DEPTH} levels",
            code="invalid_metadata",
            field=field,
            index=index,
            limit=MAX_METADATA_DEPTH,
        )
    _check_size(metadata, field, index)
    return metadata


def check_collection_metadata(metadata: Any, *, field: str = "metadata") -> Metadata:
    """Return what `check_metadata` returns. Raises InvalidInputError beyond `MAX_COLLECTION_BYTES`, too."""
    checked = check_metadata(metadata, field=field)
    size = len(orjson.dumps(checked))
    if size > MAX_COLLECTION_BYTES:
        raise InvalidInputError(
            f"a collection's metadata has {size:,} bytes, {MAX_COLLECTION_BYTES:,} are allowed",
            code="invalid_metadata",
            field=field,
            limit=MAX_COLLECTION_BYTES,
        )
    return checked


def _check_size(metadata: Metadata, field: str, index: int | None) -> None:
    def refuse(sentence: str, limit: int, path: str = "") -> NoReturn:
        where = {"path": path[:SHOWN_CHARACTERS]} if path else {}
        raise InvalidInputError(sentence, code="invalid_metadata", field=field, index=index, limit=limit, **where)

    fields = values = 0
    left: list[tuple[str, Any, bool]] = [("", metadata, True)]
    while left:
        path, container, counts = left.pop()
        if isinstance(container, dict):
            for key in container:
                # No character has more than four bytes; half a surrogate pair has three of them.
                if len(key) > MAX_KEY_BYTES // 4 and len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
                    shown = f"'{key[:SHOWN_CHARACTERS]}…'"
                    refuse(f"metadata has a key of more than {MAX_KEY_BYTES} bytes: {shown}", MAX_KEY_BYTES, key)
            fields += len(container) if counts else 0
            inner: Iterable[tuple[str, Any]] = container.items()
        else:
            if len(container) > MAX_LIST_ELEMENTS:
                sentence = f"the list '{path[:SHOWN_CHARACTERS]}' in metadata has {len(container)} elements"
                refuse(f"{sentence}, {MAX_LIST_ELEMENTS} are allowed", MAX_LIST_ELEMENTS, path)
            inner = (("", item) for item in container)
        values += len(container)
        # An element of a list has no field of its own: its path is that of the list.
        for key, value in inner:
            if isinstance(value, dict | list):
                below = f"{path}.{key}" if path and key else path or key
                left.append((below, value, counts and isinstance(container, dict)))
    if fields > MAX_FIELDS:
        refuse(f"metadata has {fields} fields, {MAX_FIELDS} are allowed", MAX_FIELDS)
    if values > MAX_VALUES:
        refuse(f"metadata has {values} fields and elements of lists, {MAX_VALUES} are allowed", MAX_VALUES)


def set_apart(said: Metadata, known: Metadata, more: Container[str] = ()) -> Metadata:
    """Return what the service knows of a document, and what others say of it: a name of theirs that the service has
    too, or keeps for itself in `more`, or that no filter could name, goes below `attributes.`, where filters find
    it. So does one that such a name takes."""
    by_place: dict[str, str] = {}
    for name in sorted(said, key=len):  # a name is shorter than the one that it takes
        if name not in known or said[name] != known[name]:
            is_taken = name in known or name in more or name in by_place or name.startswith(UNNAMEABLE)
            by_place[ATTRIBUTES + name if is_taken else name] = name
    place_of = {name: place for place, name in by_place.items()}
    return {place_of[name]: value for name, value in said.items() if name in place_of} | known


def check_reserved(given: Metadata, known: Metadata | None = None, *, field: str = "metadata") -> Metadata:
    """Return the metadata that a caller gives a collection.

    Raises InvalidInputError for a key of the engine's own, in `path`, unless it stays what it is in `known`, the
    metadata of the collection so far: it would change nothing.
    """
    for key, value in reserved_of(given).items():
        if known is None or key not in known or known[key] != value:
            said = "keys that begin with 'hnsw:' or 'chroma:' are the engine's own"
            if key == METRIC_KEY:
                said = "a collection's metric is said by 'metric' when it is created"
            path = key[:SHOWN_CHARACTERS]
            raise InvalidInputError(
                f"{field} cannot set '{path}': {said}", code="invalid_metadata", field=field, path=path
            )
    return given


def without_reserved(metadata: Metadata) -> Metadata:
    """Return collection metadata without the engine's own keys."""
    return {key: value for key, value in metadata.items() if not key.startswith(RESERVED_PREFIXES)}


def reserved_of(metadata: Metadata) -> Metadata:
    """Return the engine's own keys of collection metadata."""
    return {key: value for key, value in metadata.items() if key.startswith(RESERVED_PREFIXES)}


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` after a JSON Merge Patch (RFC 7396): null removes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def is_deeper_than(value: dict[str, Any], levels: int) -> bool:
    """Return whether objects and lists are nested more than that many levels deep."""
    layer: list[Any] = [value]
    for _ in range(levels):
        layer = [inner for outer in layer for inner in _containers(outer)]
        if not layer:
            return False
    return True


def _containers(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return (item for item in inner if isinstance(item, dict | list))
