"""The rules for metadata objects, and RFC 7396 for changing them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schemas.errors import InvalidInputError
from schemas.records import Metadata

MAX_METADATA_DEPTH = 32
RESERVED_PREFIXES = ("hnsw:", "chroma:")


def check_metadata(metadata: Any, *, field: str = "metadata", index: int | None = None) -> Metadata:
    """`metadata` itself when it is a JSON object of at most `MAX_METADATA_DEPTH` levels; null counts as `{}`.

    Raises InvalidInputError naming the field and the document's `index`. Numbers are finite already: the JSON
    reader refuses NaN and Infinity.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise InvalidInputError("metadata must be an object", code="invalid_metadata", field=field, index=index)
    if _deeper_than(metadata, MAX_METADATA_DEPTH):
        raise InvalidInputError(
            f"metadata is nested deeper than {MAX_METADATA_DEPTH} levels",
            code="invalid_metadata",
            field=field,
            index=index,
            limit=MAX_METADATA_DEPTH,
        )
    return metadata


def without_reserved(metadata: Metadata) -> Metadata:
    """Collection metadata without the engine's own keys, which callers may read but never set (api: read-only)."""
    return {key: value for key, value in metadata.items() if not key.startswith(RESERVED_PREFIXES)}


def reserved_of(metadata: Metadata) -> Metadata:
    """The engine's own keys of collection metadata."""
    return {key: value for key, value in metadata.items() if key.startswith(RESERVED_PREFIXES)}


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` after a JSON Merge Patch (RFC 7396): null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _deeper_than(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [inner for outer in layer for inner in _containers(outer)]
        if not layer:
            return False
    return True


def _containers(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return (item for item in inner if isinstance(item, dict | list))
