"""The relevance that a cosine stands for, which differs from model to model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import orjson

from schemas.configuration import faults
from schemas.errors import ConfigurationError

_FOLDER = Path(__file__).parent / "calibrations"
_NUMBERS = {
    "midpoint": {"type": "number", "minimum": -1, "maximum": 1},
    "slope": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
    "missing_words": {"type": "number", "minimum": 0, "maximum": 1},
    "min_relevance": {"type": "number", "minimum": 0, "maximum": 1},
}
_SCHEMA = {
    "type": "object",
    "properties": {"models": {"type": "array", "items": {"type": "string"}, "minItems": 1}, **_NUMBERS},
    "required": ["models", *_NUMBERS],
}


class Calibration(Protocol):
    """The meaning of one model's cosines. `min_relevance` is the default threshold, None where nobody knows one."""

    @property
    def min_relevance(self) -> float | None: ...

    def relevance(self, cosine: float, words_found: float) -> float: ...


@dataclass(frozen=True, slots=True)
class LogisticCurve:
    """The calibration of a model whose cosines were measured (`benchmarks/relevance/calibration.py`).

    Where all words of a question were found, the relevance of a text whose cosine is `midpoint` is 0.5, and `slope`
    says how fast it grows there. Where none was found, the cosine has to be greater by `missing_words`.
    """

    midpoint: float
    slope: float
    missing_words: float
    min_relevance: float

    def relevance(self, cosine: float, words_found: float) -> float:
        wanting = self.midpoint + self.missing_words * (1.0 - words_found) - cosine
        return 1.0 / (1.0 + math.exp(self.slope * wanting))


@dataclass(frozen=True, slots=True)
class Uncalibrated:
    """The cosine itself, for models of which nobody has measured what it means."""

    min_relevance: None = None

    def relevance(self, cosine: float, words_found: float) -> float:
        return min(1.0, max(0.0, cosine))


def calibration_of(model: str) -> Calibration:
    """Return the calibration of the model of that name."""
    return _known().get(model, Uncalibrated())


def read_calibration(file: Path) -> dict[str, Calibration]:
    """Return the calibrations in a file by the names of their models.

    Raises ConfigurationError when the file cannot be read or is not a calibration.
    """
    try:
        content: Any = orjson.loads(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}") from error
    wrong = faults(content, _SCHEMA)
    if wrong:
        raise ConfigurationError(f"{file} is not a calibration: {wrong[0].pointer or '/'}: {wrong[0].message}")
    curve = LogisticCurve(**{name: float(content[name]) for name in _NUMBERS})
    return dict.fromkeys(content["models"], curve)


@cache
def _known() -> Mapping[str, Calibration]:
    return {model: curve for file in _FOLDER.glob("*.json") for model, curve in read_calibration(file).items()}
