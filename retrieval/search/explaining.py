"""Explanations of why documents are not among the results of a search."""

from __future__ import annotations

from collections.abc import Sequence

from providers.base import SupportsMetadataFiltering
from retrieval.search.asking import Found, Plan
from retrieval.search.fusion import DocumentKey, key_of, passage_of
from schemas.contracts.search import OK, Explanation, FusedResult, OracleReceipt, OracleVerdict, SearchReceipt
from schemas.where import Equals, HasId, Or, Where, all_of


class Explainer:
    """Explains one search by what was found for it, and by the hits that were given."""

    def __init__(self, plan: Plan, found: Found, receipt: SearchReceipt, hits: Sequence[FusedResult]) -> None:
        self._plan = plan
        self._candidates = found.candidates
        self._passing = {passage_of(each) for each in found.passing}
        self._receipt = receipt
        self._hits = hits
        best: dict[DocumentKey, FusedResult] = {}
        for each in found.candidates:
            best.setdefault(key_of(each), each)
        self._best = list(enumerate(best.values(), start=1))
        """The best passage of each document with its rank among documents, best first."""

    def cut(self) -> list[Explanation]:
        """Return an explanation of each document that was not given."""
        given = {key_of(hit) for hit in self._hits}
        return [self._candidate(rank, best) for rank, best in self._best if key_of(best) not in given]

    def of(self, ids: Sequence[str]) -> list[Explanation]:
        """Return explanations of these documents or passages, found or not.

        What was found in several collections has one for each of them.
        """
        ranks = {key_of(each): rank for rank, each in self._best}
        explanations: list[Explanation] = []
        for each_id in dict.fromkeys(ids):
            found = [each for _, each in self._best if each.doc_id == each_id]
            found = found or [each for each in self._candidates if each.chunk_id == each_id]
            explanations += [self._candidate(ranks[key_of(each)], each) for each in found] or [self._missing(each_id)]
        return explanations

    def _candidate(self, rank: int, candidate: FusedResult) -> Explanation:
        mine = [hit for hit in self._hits if key_of(hit) == key_of(candidate)]
        most = self._receipt.max_per_document
        if any(candidate.chunk_id in (hit.chunk_id, *hit.chunk_ids) for hit in mine):
            reason = "among the results"
        elif candidate.relevance is not None and passage_of(candidate) not in self._passing:
            least = self._receipt.min_relevance or 0.0
            reason = f"left out: rank {rank}, but its relevance {candidate.relevance:.2f} is below {least:.2f}"
        elif most is not None and len(mine) >= most:
            reason = f"cut: rank {rank}, {most} hits of its document are among the results"
        else:
            reason = f"cut: rank {rank} of {len(self._best)}, the limit is {self._plan.request.limit}"
        verdicts = {
            name: OracleVerdict(candidate.provenance[name])
            if name in candidate.provenance
            else OracleVerdict(reason=self._reason(receipt))
            for name, receipt in self._receipt.oracles.items()
        }
        return Explanation(candidate.doc_id, candidate.collection, rank, candidate.rrf_score, reason, verdicts)

    def _missing(self, doc_id: str) -> Explanation:
        document = Or((Equals("document_id", doc_id), HasId((doc_id,))))
        asked = self._receipt.collections.asked
        home = next((name for name in asked if self._count(name, document)), None)
        if home is None:
            reason = everywhere = "not in the collections"
        elif not self._count(home, all_of(self._plan.request.where, document)):
            reason = everywhere = "filtered out by where"
        else:
            reason, everywhere = "no oracle found it", ""
        verdicts = {
            name: OracleVerdict(reason=everywhere or self._reason(receipt))
            for name, receipt in self._receipt.oracles.items()
        }
        return Explanation(doc_id, home, None, None, reason, verdicts)

    def _reason(self, receipt: OracleReceipt) -> str:
        if receipt.status == OK:
            return f"not among the first {self._receipt.fetched}"
        return f"the oracle is {receipt.status}"

    def _count(self, collection: str, where: Where) -> int:
        return self._plan.chosen.corpus.able(SupportsMetadataFiltering).documents(collection, where, limit=1).total
