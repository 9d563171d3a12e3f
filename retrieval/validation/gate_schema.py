"""The JSON Schema of gate files (`retrieval/validation/gates.py`)."""

from __future__ import annotations

from schemas.configuration import JsonSchema

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
