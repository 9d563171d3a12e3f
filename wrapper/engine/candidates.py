"""How many of the nearest documents the engine is asked for, so that enough of them answer a query."""

from __future__ import annotations

import math

MAX_CANDIDATES = 16_384
SPARE_CANDIDATES = 10


def first_candidates(documents: int, matching: int, top_k: int, *, at_least: int = 0) -> int:
    """Return for how many candidates of a collection to ask first when `top_k` of the `matching` ones are wanted.

    `at_least` is what the recall of its index requires: Chroma searches as widely as it is asked for candidates.
    """
    share = matching / max(1, documents)
    # Three times the expectation and some more: filters are rarely independent of nearness, and the engine's recall
    # is better among more neighbours.
    wanted = math.ceil(top_k / share * (1.0 if share == 1.0 else 3.0)) + SPARE_CANDIDATES
    return min(max(wanted, at_least), max(documents, top_k), MAX_CANDIDATES)
