"""Long rows of cases, of which a usual run takes every third and `make soak` (RAG_SOAK_EACH) each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

STEP = 1 if "RAG_SOAK_EACH" in os.environ else 3


def some(cases: Sequence[Any], turn: int) -> Sequence[Any]:
    """Return every third of the cases, others in each of three turns; in a soak all."""
    return cases[turn % STEP :: STEP]
