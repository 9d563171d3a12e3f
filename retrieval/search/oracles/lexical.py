"""Search by words: documents that share words with the question, rare words counting more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from providers.base import SupportsTextSearch
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.records import TextMatch
from schemas.words.splitting import is_spaceless, split, without_accents
from schemas.words.stop_words import stop_words_of

COMPARED = 5
"""The number of a collection's first results by which its scores are scaled."""
STEM_LETTERS = 5


class LexicalOracle(Oracle):
    """Finds documents by their words. No text of a user is syntax, and a text without a word finds nothing.

    Each collection measures for itself how rare a word is: among three documents no word is rare, and BM25 is close to
    0. So the scores of each collection are scaled before they are merged: the mean over its first results becomes the
    mean share of the question's words that these results have. The order within a collection stays.
    """

    name = "lexical"
    measure = "words"

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsTextSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        search = question.corpus.able(SupportsTextSearch)
        words = split(question.text)
        is_stop_word = stop_words_of(words)
        asked = _stems(word for word in words if not is_stop_word(word))

        def with_its_words(collection: CollectionInfo) -> list[OracleResult]:
            found = search.text_search(collection.name, question.text, top_k=limit, where=question.where)
            scale = _scale(asked, found[:COMPARED])
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


def _scale(asked: set[str], best: Sequence[TextMatch]) -> float:
    scores = sum(match.score for match in best)
    # Each result has one of the words at least, if only in a form that is not recognised here.
    shared = sum(
        max(1, len(asked.intersection(_stems(split(text_with_heading(each.document.text, each.document.metadata))))))
        for each in best
    )
    return shared / max(1, len(asked)) / scores if scores > 0 else 0.0


def _stems(words: Iterable[str]) -> set[str]:
    """Return rough stems of words. They are exact enough to count by."""
    return {
        word if not word.isascii() and is_spaceless(word) else without_accents(word)[:STEM_LETTERS]
        for word in set(words)
    }
