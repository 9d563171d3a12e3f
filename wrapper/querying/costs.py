"""What the plans of a vector query cost."""

from __future__ import annotations

from dataclasses import dataclass

SHARE_PICKED = 0.25


def codes_compared(documents: int, matches: int | None) -> int:
    """Return of how many of the documents in memory codes are compared, for the `matches` of a filter or without one.

    Few are picked out first. To pick many takes longer than to compare those of all.
    """
    return documents if matches is None or matches >= SHARE_PICKED * documents else matches


@dataclass(frozen=True, slots=True)
class CostModel:
    """Costs in milliseconds, measured (`benchmarks/planner_costs.py`, `docs/performance.md`)."""

    exact_per_document: float = 0.0053
    exact_per_component: float = 0.0000037
    index_base: float = 3.7
    index_per_candidate: float = 0.0283
    memory_base: float = 0.3
    memory_per_component: float = 0.00000005
    memory_per_match: float = 0.00005
    reading_per_document: float = 0.005
    reading_per_component: float = 0.000025

    def exact(self, matches: int, dimension: int) -> float:
        return matches * (self.exact_per_document + dimension * self.exact_per_component)

    def index(self, candidates: int) -> float:
        return self.index_base + candidates * self.index_per_candidate

    def memory(self, documents: int, dimension: int, matches: int | None, top_k: int) -> float:
        """Return the cost with the `matches` of a filter, None when there is no filter."""
        compared = codes_compared(documents, matches)
        comparing = compared * dimension * self.memory_per_component
        reading = self.exact(min(top_k, compared), dimension)
        return self.memory_base + comparing + (matches or 0) * self.memory_per_match + reading

    def reading(self, documents: int, dimension: int) -> float:
        """Return what it costs to read the vectors of so many documents and make codes of them."""
        return documents * (self.reading_per_document + dimension * self.reading_per_component)
