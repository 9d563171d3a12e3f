"""By words: the documents that share words with the question, the rarer the better."""

from __future__ import annotations

from providers.base import SupportsTextSearch
from retrieval.corpus import Corpus
from retrieval.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.searched import OracleAnswer, OracleResult


class LexicalOracle(Oracle):
    """No text of a user is syntax to it; a text without a word finds nothing."""

    name = "lexical"

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def is_available(self) -> bool:
        return self._corpus.can(SupportsTextSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        search = self._corpus.able(SupportsTextSearch)

        def with_its_words(collection: CollectionInfo) -> list[OracleResult]:
            found = search.text_search(collection.name, question.text, top_k=limit, where=question.where)
            return [to_result(match.document, collection, bounded(match.score)) for match in found]

        return ask_each(question, limit, with_its_words)


def bounded(score: float) -> float:
    """A score of words, which has no upper bound, in [0, 1): s / (1 + s), in the same order."""
    positive = max(0.0, score)
    return positive / (1.0 + positive)
