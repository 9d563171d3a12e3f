"""Search by words: documents that share words with the question, rare words counting more."""

from __future__ import annotations

from collections.abc import Sequence

from providers.base import SupportsTextSearch
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Oracle, Question, ask_each, to_result
from retrieval.search.relevance import ComparedTexts
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.records import TextMatch
from schemas.words.comparing import AskedWords

COMPARED = 5
"""The number of a collection's first results by which its scores are scaled."""


class LexicalOracle(Oracle):
    """Finds documents by their words. No text of a user is syntax, and a text without a word finds nothing.

    Each collection measures for itself how rare a word is: among three documents no word is rare, and BM25 is close to
    0. So the scores of each collection are scaled before they are merged: the mean over its first results becomes the
    mean share of the question's words that these results have. The order within a collection stays.
    """

    name = "lexical"
    measure = "words"

    def __init__(self) -> None:
        self._compared = ComparedTexts()

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsTextSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        search = question.corpus.able(SupportsTextSearch)
        asked = AskedWords(question.text)

        def with_its_words(collection: CollectionInfo) -> list[OracleResult]:
            found = search.text_search(collection.name, question.text, top_k=limit, where=question.where)
            scale = _scale(asked, found[:COMPARED], self._compared)
            scores = [scale * match.score for match in found]
            return [
                to_result(match.document, collection, bounded(score), measured=score)
                for match, score in zip(found, scores, strict=True)
            ]

        return ask_each(question, limit, with_its_words)


def bounded(score: float) -> float:
    """Return a score without an upper bound as one in [0, 1), s / (1 + s), which keeps the order."""
    positive = max(0.0, score)
    return positive / (1.0 + positive)


def _scale(asked: AskedWords, best: Sequence[TextMatch], compared: ComparedTexts) -> float:
    scores = sum(match.score for match in best)
    texts = [compared.words_of(text_with_heading(each.document.text, each.document.metadata)) for each in best]
    words = asked.known_in(texts)
    # Each result has one of the words at least, if only in a form that is not recognised here.
    shared = sum(max(1, sum(word.is_in(text) for word in words)) for text in texts)
    return shared / max(1, len(words)) / scores if scores > 0 else 0.0
