"""Explanations of why documents are not among the results of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from providers.base import SupportsMetadataFiltering
from retrieval.search.corpus import OpenCorpus
from retrieval.search.fusion import DocumentKey, key_of
from retrieval.search.oracles.base import Question
from schemas.contracts.search import (
    OK,
    Explanation,
    FusedResult,
    OracleReceipt,
    OracleVerdict,
    SearchReceipt,
)
from schemas.where import Equals, HasId, Or, Where, all_of


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains one search.

    `candidates` are all passages, best first; `relevant` are those of them that are relevant enough, and `hits` those
    that were given, at most `limit`.
    """

    corpus: OpenCorpus
    question: Question
    receipt: SearchReceipt
    candidates: Sequence[FusedResult]
    relevant: Sequence[FusedResult]
    hits: Sequence[FusedResult]
    limit: int

    def cut(self) -> list[Explanation]:
        """Return an explanation of each document that was not given."""
        given = {key_of(hit) for hit in self.hits}
        return [self._candidate(rank, best) for rank, best in self._best_of_documents() if key_of(best) not in given]

    def of(self, ids: Sequence[str]) -> list[Explanation]:
        """Return explanations of these documents or passages, found or not.

        What was found in several collections has one for each of them.
        """
        best = self._best_of_documents()
        ranks = {key_of(each): rank for rank, each in best}
        explanations: list[Explanation] = []
        for each_id in dict.fromkeys(ids):
            found = [self._candidate(rank, each) for rank, each in best if each.doc_id == each_id] or [
                self._candidate(ranks[key_of(each)], each) for each in self.candidates if each.chunk_id == each_id
            ]
            explanations += found or [self._missing(each_id)]
        return explanations

    def _best_of_documents(self) -> list[tuple[int, FusedResult]]:
        """Return the best passage of each document with its rank among documents, best first."""
        best: dict[DocumentKey, FusedResult] = {}
        for each in self.candidates:
            best.setdefault(key_of(each), each)
        return list(enumerate(best.values(), start=1))

    def _candidate(self, rank: int, candidate: FusedResult) -> Explanation:
        mine = [hit for hit in self.hits if key_of(hit) == key_of(candidate)]
        most = self.receipt.max_per_document
        if any(candidate.chunk_id in (hit.chunk_id, *hit.chunk_ids) for hit in mine):
            reason = "among the results"
        elif candidate.relevance is not None and candidate not in self.relevant:
            least = self.receipt.min_relevance or 0.0
            reason = f"left out: rank {rank}, but its relevance {candidate.relevance:.2f} is below {least:.2f}"
        elif most is not None and len(mine) >= most:
            reason = f"cut: rank {rank}, {most} hits of its document are among the results"
        else:
            reason = f"cut: rank {rank} of {len(self._best_of_documents())}, the limit is {self.limit}"
        verdicts = {
            name: OracleVerdict(candidate.provenance[name])
            if name in candidate.provenance
            else OracleVerdict(reason=self._reason(receipt))
            for name, receipt in self.receipt.oracles.items()
        }
        return Explanation(candidate.doc_id, candidate.collection, rank, candidate.rrf_score, reason, verdicts)

    def _missing(self, doc_id: str) -> Explanation:
        document = Or((Equals("document_id", doc_id), HasId((doc_id,))))
        asked = self.receipt.collections.asked
        home = next((name for name in asked if self._count(name, document)), None)
        if home is None:
            reason = everywhere = "not in the collections"
        elif not self._count(home, all_of(self.question.where, document)):
            reason = everywhere = "filtered out by where"
        else:
            reason, everywhere = "no oracle found it", ""
        verdicts = {
            name: OracleVerdict(reason=everywhere or self._reason(receipt))
            for name, receipt in self.receipt.oracles.items()
        }
        return Explanation(doc_id, home, None, None, reason, verdicts)

    def _reason(self, receipt: OracleReceipt) -> str:
        if receipt.status == OK:
            return f"not among the first {self.receipt.fetched}"
        return f"the oracle is {receipt.status}"

    def _count(self, collection: str, where: Where) -> int:
        return self.corpus.able(SupportsMetadataFiltering).documents(collection, where, limit=1).total
