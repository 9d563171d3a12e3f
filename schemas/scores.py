"""One meaning of `score` for every collection, whoever keeps it."""

from __future__ import annotations

import math


def score(distance: float, metric: str) -> float:
    """Nearness in [0, 1], higher is nearer. cosine: 1 - d/2; l2: 1/(1 + d); ip: the logistic function of 1 - d."""
    if metric == "cosine":
        return min(1.0, max(0.0, 1.0 - distance / 2.0))
    if metric == "l2":
        return 1.0 / (1.0 + max(0.0, distance))
    product = 1.0 - distance
    if product >= 0:
        return 1.0 / (1.0 + math.exp(-min(product, 700.0)))
    grown = math.exp(max(product, -700.0))
    return grown / (1.0 + grown)
