"""How good a ranking is, by what people judged relevant: the definitions of trec_eval, with linear gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CUT = 10
SHORT_CUT = 5
TOP = 3


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures of one ranking, or their means over several; each is in [0, 1].

    success_at_3: whether something relevant is among the first three.
    """

    success_at_3: float
    mrr: float
    ndcg_at_10: float
    recall_at_5: float
    recall_at_10: float


MEASURES = ("success_at_3", "mrr", "ndcg_at_10", "recall_at_5", "recall_at_10")


def quality(ranking: Sequence[str], judgements: Mapping[str, int]) -> Quality:
    """Measure a ranking: ids of documents, best first, each once. At least one document must be relevant."""
    relevant = {document_id for document_id, score in judgements.items() if score > 0}
    first = next((rank for rank, each in enumerate(ranking[:CUT], start=1) if each in relevant), None)
    return Quality(
        success_at_3=float(first is not None and first <= TOP),
        mrr=0.0 if first is None else 1.0 / first,
        ndcg_at_10=_gain([judgements.get(each, 0) for each in ranking]) / _gain(_best(judgements)),
        recall_at_5=len(relevant.intersection(ranking[:SHORT_CUT])) / len(relevant),
        recall_at_10=len(relevant.intersection(ranking[:CUT])) / len(relevant),
    )


def mean(qualities: Sequence[Quality]) -> Quality:
    """Return the mean of each measure over at least one ranking."""
    return Quality(*(math.fsum(getattr(each, name) for each in qualities) / len(qualities) for name in MEASURES))


def _best(judgements: Mapping[str, int]) -> list[int]:
    return sorted(judgements.values(), reverse=True)


def _gain(scores: Sequence[int]) -> float:
    return math.fsum(max(0, score) / math.log2(place + 2) for place, score in enumerate(scores[:CUT]))
