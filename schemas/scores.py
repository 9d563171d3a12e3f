"""One meaning of `distance` and of `score` for every collection, whoever keeps it."""

from __future__ import annotations

import math

DIGITS = 12
"""Of a distance and a score. What is computed from float32 numbers knows no more, and rounding errors stay out."""


def rounded(distance: float, metric: str) -> float:
    """A distance to `DIGITS` significant digits, and never -0.0. cosine and ip are what is missing from 1, of which
    nothing is known beyond `DIGITS` decimals either; l2 is as small as it is."""
    known = distance if metric == "l2" else round(distance, DIGITS)
    return float(f"{known:.{DIGITS}g}") + 0.0


def score(distance: float, metric: str) -> float:
    """Nearness in [0, 1], higher is nearer. cosine: 1 - d/2; l2: 1/(1 + d); ip: the logistic function of 1 - d."""
    if metric == "cosine":
        return round(min(1.0, max(0.0, 1.0 - distance / 2.0)), DIGITS)
    if metric == "l2":
        return float(f"{1.0 / (1.0 + max(0.0, distance)):.{DIGITS}g}")
    product = 1.0 - distance
    if product >= 0:
        return float(f"{1.0 / (1.0 + math.exp(-min(product, 700.0))):.{DIGITS}g}")
    grown = math.exp(max(product, -700.0))
    return float(f"{grown / (1.0 + grown):.{DIGITS}g}")
