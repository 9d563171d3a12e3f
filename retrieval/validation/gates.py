"""Gates: what a service must find before it is relied on. The built-in one is that of the contract *context*, §7."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from retrieval.validation.gate_schema import GATE
from schemas.configuration import faults, with_defaults
from schemas.errors import InvalidInputError

BUILT_IN = Path(__file__).parent / "pre_validation.yaml"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate, as its file defines it.

    documents: arguments of `rag_context_index`. queries: arguments of `rag_context_search`, and under `expected` a text
    that one of the results must contain, compared without case. `min_accuracy` is in [0, 1].
    """

    name: str
    documents: tuple[Json, ...]
    queries: tuple[Json, ...]
    samples: tuple[str, ...]
    limit: int
    min_accuracy: float
    dimension: int | None
    max_embedding_ms: float


def read_gate(path: Path = BUILT_IN) -> Gate:
    """Read a gate from a YAML or JSON file. Raises InvalidInputError naming the file and the field that is wrong."""
    try:
        found = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInputError(f"'{path}' cannot be read: {error}") from None
    for fault in faults(found, GATE):
        raise InvalidInputError(f"'{path}' is no gate: {fault.pointer or 'the file'}: {fault.message}")
    told: Mapping[str, Any] = with_defaults(found, GATE)
    return Gate(
        name=path.stem,
        documents=tuple(told["documents"]),
        queries=tuple(told["queries"]),
        samples=tuple(told["embeddingSamples"]),
        limit=told["limit"],
        min_accuracy=told["minAccuracy"],
        dimension=told.get("dimension"),
        max_embedding_ms=told["maxEmbeddingMs"],
    )
