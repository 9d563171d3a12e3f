"""What the plans of a vector query cost."""

from __future__ import annotations

from dataclasses import dataclass

SHARE_PICKED = 0.25
"""Of a smaller share of a collection in memory, codes are picked out before they are compared."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs in milliseconds, measured (`benchmarks/planner_costs.py`, `docs/performance.md`)."""

    exact_per_document: float = 0.0053
    exact_per_component: float = 0.0000037
    index_base: float = 3.7
    index_per_candidate: float = 0.0283
    memory_base: float = 0.3
    memory_per_component: float = 0.00000005
    memory_per_match: float = 0.0006

    def exact(self, matches: int, dimension: int) -> float:
        return matches * (self.exact_per_document + dimension * self.exact_per_component)

    def index(self, candidates: int) -> float:
        return self.index_base + candidates * self.index_per_candidate

    def memory(self, documents: int, dimension: int, matches: int | None, top_k: int) -> float:
        """Return the cost with the `matches` of a filter, None when there is no filter."""
        computed = documents if matches is None or matches >= SHARE_PICKED * documents else matches
        read = self.exact(min(top_k, computed), dimension)
        compared = computed * dimension * self.memory_per_component
        return self.memory_base + compared + (matches or 0) * self.memory_per_match + read
