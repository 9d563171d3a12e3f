"""A question as Dify's external knowledge API asks it."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.where import EVERYTHING, Scalar, Where


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on fields, of which any is enough. `operator` is one of Dify's; `values` is empty for those without
    one."""

    names: tuple[str, ...]
    operator: str
    values: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A question to the collections `knowledge` (names and `prefix*`; None are all text collections).

    Of several conditions all must hold, with `any_holds` one, and `where` beside them. `score_threshold` is the least
    relevance, None where nothing is said of it.
    """

    query: str
    knowledge: tuple[str, ...] | None
    top_k: int
    score_threshold: float | None = None
    conditions: tuple[Condition, ...] = ()
    any_holds: bool = False
    where: Where = EVERYTHING
