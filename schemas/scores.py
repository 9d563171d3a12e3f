"""Defines `distance` and `score` once for every collection of every provider."""

from __future__ import annotations

import math

DIGITS = 12
"""Significant digits of a distance and a score: float32 numbers hold no more, and rounding errors stay out."""


def rounded(distance: float, metric: str) -> float:
    """Return a distance rounded to `DIGITS` significant digits, never -0.0.

    cosine and ip are differences from 1, so they are rounded to `DIGITS` decimals, too; l2 may be arbitrarily small.
    """
    known = distance if metric == "l2" else round(distance, DIGITS)
    return float(f"{known:.{DIGITS}g}") + 0.0


def score(distance: float, metric: str) -> float:
    """Return the nearness in [0, 1], 1 is nearest: cosine 1 - d/2; l2 1/(1 + d); ip the logistic function of 1 - d."""
    if metric == "cosine":
        return round(min(1.0, max(0.0, 1.0 - distance / 2.0)), DIGITS)
    if metric == "l2":
        return float(f"{1.0 / (1.0 + max(0.0, distance)):.{DIGITS}g}")
    product = 1.0 - distance
    if product >= 0:
        return float(f"{1.0 / (1.0 + math.exp(-min(product, 700.0))):.{DIGITS}g}")
    grown = math.exp(max(product, -700.0))
    return float(f"{grown / (1.0 + grown):.{DIGITS}g}")
