"""Gates: what a service must find before it is relied on. The built-in one is that of the contract *context*, §7."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from schemas.configuration import JsonSchema, faults, with_defaults
from schemas.errors import InvalidInputError

BUILT_IN = Path(__file__).parent / "pre_validation.yaml"

Gate = dict[str, Any]
"""The fields of `GATE`, and the gate's `name`.

documents: arguments of `rag_context_index`. queries: arguments of `rag_context_search`, and under `expected` a text
that one of the results must contain, compared without case.
"""

_TEXT: JsonSchema = {"type": "string", "minLength": 1}

GATE: JsonSchema = {
    "type": "object",
    "properties": {
        "documents": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["content"]}},
        "queries": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"query": _TEXT, "expected": _TEXT},
                "required": ["query", "expected"],
            },
        },
        "embeddingSamples": {"type": "array", "items": _TEXT, "default": ["a text to embed"], "minItems": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 3},
        "minAccuracy": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.8},
        "dimension": {"type": "integer", "minimum": 1},
        "maxEmbeddingMs": {"type": "number", "exclusiveMinimum": 0, "default": 5000},
    },
    "required": ["documents", "queries"],
    "additionalProperties": False,
}


def read_gate(path: Path = BUILT_IN) -> Gate:
    """Read a gate from a YAML or JSON file. Raises InvalidInputError naming the file and the field that is wrong."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError(f"'{path}' cannot be read: {error}") from None
    for fault in faults(found, GATE):
        raise InvalidInputError(f"'{path}' is no gate: {fault.pointer or 'the file'}: {fault.message}")
    return {**with_defaults(found, GATE), "name": path.stem}
