"""Explanations of why documents are not among the results of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from providers.base import SupportsMetadataFiltering
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Question
from schemas.bounds import MAX_PAGE
from schemas.contracts.search import (
    OK,
    Explanation,
    FusedResult,
    OracleReceipt,
    OracleVerdict,
    SearchReceipt,
)
from schemas.metadata import UNNAMEABLE
from schemas.records import Document
from schemas.where import EVERYTHING, Equals, Where, all_of


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains one search.

    `fused` are all candidates, best first; `relevant` are those of them that are relevant enough, and `results` those
    that were given. Each oracle was asked for `fetched` results in `collections`, the names of all collections that
    were searched.
    """

    corpus: OpenCorpus
    question: Question
    collections: Sequence[str]
    receipt: SearchReceipt
    fused: Sequence[FusedResult]
    relevant: Sequence[FusedResult]
    results: Sequence[FusedResult]
    fetched: int

    def cut(self) -> list[Explanation]:
        """Return an explanation of each candidate that was not given."""
        return [
            self._candidate(rank, each) for rank, each in enumerate(self.fused, start=1) if each not in self.results
        ]

    def of(self, doc_ids: Sequence[str]) -> list[Explanation]:
        """Return explanations of these documents, found or not.

        A document that was found in several collections has one for each of them.
        """
        explanations: list[Explanation] = []
        for doc_id in dict.fromkeys(doc_ids):
            found = [
                self._candidate(rank, each) for rank, each in enumerate(self.fused, start=1) if each.doc_id == doc_id
            ]
            explanations += found or [self._missing(doc_id)]
        return explanations

    def _candidate(self, rank: int, candidate: FusedResult) -> Explanation:
        if candidate in self.results:
            reason = "among the results"
        elif candidate in self.relevant:
            reason = f"cut: rank {rank} of {len(self.fused)}, the limit is {len(self.results)}"
        else:
            least = self.receipt.min_relevance
            reason = f"left out: rank {rank}, but its relevance {candidate.relevance:.2f} is below {least:.2f}"
        verdicts = {
            name: OracleVerdict(candidate.provenance[name])
            if name in candidate.provenance
            else OracleVerdict(reason=self._reason(receipt))
            for name, receipt in self.receipt.oracles.items()
        }
        return Explanation(candidate.doc_id, candidate.collection, rank, candidate.rrf_score, reason, verdicts)

    def _missing(self, doc_id: str) -> Explanation:
        home = next((name for name in self.collections if self._holds(name, doc_id)), None)
        if home is None:
            reason = everywhere = "not in the collections"
        elif not self._matches(home, doc_id):
            reason = everywhere = "filtered out by where"
        else:
            reason, everywhere = "no oracle found it", ""
        verdicts = {
            name: OracleVerdict(reason=everywhere or self._reason(receipt))
            for name, receipt in self.receipt.oracles.items()
        }
        return Explanation(doc_id, home, None, None, reason, verdicts)

    def _reason(self, receipt: OracleReceipt) -> str:
        return f"not among the first {self.fetched}" if receipt.status == OK else f"the oracle is {receipt.status}"

    def _holds(self, collection: str, doc_id: str) -> bool:
        return (
            self._count(collection, Equals("document_id", doc_id)) > 0 or self._stored(collection, doc_id) is not None
        )

    def _matches(self, collection: str, doc_id: str) -> bool:
        where = self.question.where
        if where == EVERYTHING or self._count(collection, all_of(where, Equals("document_id", doc_id))):
            return True
        stored = self._stored(collection, doc_id)
        return stored is not None and self._matches_alone(collection, stored)

    def _matches_alone(self, collection: str, document: Document) -> bool:
        """Return whether the filter matches this one document.

        A filter cannot name an id, so it names the document's metadata, and the matches are searched for the id.
        """
        same = [
            Equals(field, value)
            for field, value in document.metadata.items()
            if isinstance(value, str | int | float) and "." not in field and not field.startswith(UNNAMEABLE)
        ]
        where, cursor = all_of(self.question.where, *same), None
        while True:
            page = self.corpus.able(SupportsMetadataFiltering).documents(
                collection, where, limit=MAX_PAGE, cursor=cursor
            )
            if any(each.id == document.id for each in page.documents):
                return True
            cursor = page.next_cursor
            if cursor is None:
                return False

    def _count(self, collection: str, where: Where) -> int:
        return self.corpus.able(SupportsMetadataFiltering).documents(collection, where, limit=1).total

    def _stored(self, collection: str, chunk_id: str) -> Document | None:
        found = self.corpus.able(SupportsMetadataFiltering).documents_by_id(collection, [chunk_id])
        return found[0] if found else None
