"""Make requests from a description: find every place in a schema where a string may stand, and a value that has one
there."""

from collections.abc import Callable, Iterator
from typing import Any

MAX_DEPTH = 6
Path = tuple[str | int, ...]


def places(schema: Any, resolve: Callable[[str], Any], path: Path = (), depth: int = 0) -> Iterator[Path]:
    """Return the paths to all strings that a schema describes: in objects, in lists (at 0) and in objects with any
    names."""
    schema = _plain(schema, resolve)
    if depth > MAX_DEPTH:
        return
    for branch in [schema, *(each for word in ("anyOf", "oneOf", "allOf") for each in schema.get(word, ()))]:
        described = branch if branch is schema else _plain(branch, resolve)
        kinds = described.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if "string" in kinds and "enum" not in described and "const" not in described:
            yield path
        for name, each in described.get("properties", {}).items():
            yield from places(each, resolve, (*path, name), depth + 1)
        if isinstance(described.get("items"), dict):
            yield from places(described["items"], resolve, (*path, 0), depth + 1)
        if "object" in kinds and not described.get("properties"):
            yield (*path, "any")
        if branch is not schema:
            yield from places(described, resolve, path, depth + 1) if _has_branches(described) else ()


def example(schema: Any, resolve: Callable[[str], Any], depth: int = 0) -> Any:
    """Return the smallest value that a schema takes, near enough for a request to be read to its end."""
    schema = _plain(schema, resolve)
    for word in ("example", "const", "default"):
        if schema.get(word) is not None:
            return schema[word]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema and depth <= MAX_DEPTH:
            return example(schema[word][0], resolve, depth + 1)
    kinds = schema.get("type", "object")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "object":
        required = [name for name in schema.get("required", ()) if name in schema.get("properties", {})]
        return {name: example(schema["properties"][name], resolve, depth + 1) for name in required}
    if kind == "array":
        return [example(schema.get("items", {}), resolve, depth + 1)] if schema.get("minItems") else []
    return {"string": "word", "integer": 1, "number": 0.5, "boolean": False}.get(kind)


def put_in(value: Any, path: Path, text: str) -> Any:
    """Return the value with a text at this path, whatever was there before."""
    if not path:
        return text
    step, *rest = path
    if isinstance(step, int):
        held = list(value) if isinstance(value, list) and value else [None]
        return [put_in(held[0], tuple(rest), text), *held[1:]]
    held_object = dict(value) if isinstance(value, dict) else {}
    return held_object | {step: put_in(held_object.get(step), tuple(rest), text)}


def _plain(schema: Any, resolve: Callable[[str], Any]) -> dict[str, Any]:
    while isinstance(schema, dict) and "$ref" in schema:
        schema = resolve(schema["$ref"])
    return schema if isinstance(schema, dict) else {}


def _has_branches(schema: dict[str, Any]) -> bool:
    return any(word in schema for word in ("anyOf", "oneOf", "allOf"))
