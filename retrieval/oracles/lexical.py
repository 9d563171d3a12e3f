"""By words: the documents that share words with the question, the rarer the better."""

from __future__ import annotations

import re
from collections.abc import Sequence

from providers.base import SupportsTextSearch
from retrieval.corpus import OpenCorpus
from retrieval.drafts import text_with_heading
from retrieval.oracles.base import Oracle, Question, ask_each, to_result
from schemas.connections import CollectionInfo
from schemas.records import TextMatch
from schemas.searched import OracleAnswer, OracleResult
from schemas.stop_words import STOP_WORDS

COMPARED = 5
"""The first results of a collection, by which its scores are brought to scale."""
STEM_LETTERS = 5

_WORD = re.compile(r"\w+")


class LexicalOracle(Oracle):
    """No text of a user is syntax to it; a text without a word finds nothing.

    How rare a word is each collection says for itself: in one of three documents no word is, and BM25 is next to 0.
    So the scores of each collection are brought to one scale before they are merged: their mean over its first results
    is made the mean share of the question's words that these have. The order within a collection stays.
    """

    name = "lexical"

    def is_available(self, corpus: OpenCorpus) -> bool:
        return corpus.can(SupportsTextSearch)

    def query(self, question: Question, limit: int) -> OracleAnswer:
        search = question.corpus.able(SupportsTextSearch)
        asked = _words(question.text)

        def with_its_words(collection: CollectionInfo) -> list[OracleResult]:
            found = search.text_search(collection.name, question.text, top_k=limit, where=question.where)
            scale = _scale(asked, found[:COMPARED])
            return [to_result(match.document, collection, bounded(scale * match.score)) for match in found]

        return ask_each(question, limit, with_its_words)


def bounded(score: float) -> float:
    """A score that has no upper bound, in [0, 1): s / (1 + s), in the same order."""
    positive = max(0.0, score)
    return positive / (1.0 + positive)


def _scale(asked: set[str], best: Sequence[TextMatch]) -> float:
    scores = sum(match.score for match in best)
    # What was found has one of the words at least, if only in a form that is not recognised here.
    shared = sum(
        max(1, len(asked & _words(text_with_heading(each.document.text, each.document.metadata)))) for each in best
    )
    return shared / max(1, len(asked)) / scores if scores > 0 else 0.0


def _words(text: str) -> set[str]:
    """Roughly the words that mean something, and roughly their stems: enough to count by, and the same for all."""
    return {word[:STEM_LETTERS] for word in _WORD.findall(text.lower()) if word not in STOP_WORDS}
