"""The relevance that a cosine stands for, which differs from model to model."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_MIN_RELEVANCE = 0.6
"""The default threshold for models without a calibration: that of contract *rules*, which means a cosine."""


@dataclass(frozen=True, slots=True)
class Uncalibrated:
    """The cosine itself, for models of which nobody has measured what it means."""

    min_relevance: float = UNKNOWN_MIN_RELEVANCE

    def relevance(self, cosine: float) -> float:
        return min(1.0, max(0.0, cosine))


def calibration_of(model: str) -> Uncalibrated:
    """Return the calibration of the model of that name."""
    return Uncalibrated()
