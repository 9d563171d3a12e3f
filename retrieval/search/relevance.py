"""The relevance of what was found, on one scale for all questions: see docs/quality.md, "Relevance"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest.drafts import text_with_heading
from schemas.contracts.search import FusedResult, OracleResult
from schemas.words.stop_words import STOP_WORDS

CANDIDATES = 50
"""The number of texts in which a question's words are looked for: the nearest ones."""
STEM_CHARACTERS = 5

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words: there, two neighbouring characters count as a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def with_relevance(found: Sequence[OracleResult], question: str, embedding: EmbeddingProvider) -> list[OracleResult]:
    """Return the nearest texts of a question, nearest first, each with its relevance as far as its cosine is known."""
    words = words_found(question, found)
    return [
        each if each.cosine is None else replace(each, relevance=embedding.relevance(each.cosine, words))
        for each in found
    ]


def words_found(question: str, nearest: Sequence[OracleResult | FusedResult]) -> float:
    """Return how far the words of a question were found among the texts nearest to it, in [0, 1].

    It is the share of its words that the first `CANDIDATES` have. Of fewer texts it says less that a word is missing:
    of five, a tenth.
    """
    texts = [text_with_heading(each.content, each.metadata) for each in nearest[:CANDIDATES]]
    return 1.0 - (1.0 - share_of_words(question, texts)) * len(texts) / CANDIDATES


def share_of_words(question: str, texts: Sequence[str]) -> float:
    """Return the share of the question's words, in [0, 1], that at least one of the texts has.

    Words count by their rarity in the texts, so those that none has count most. Words are compared by their first
    letters. A question without a word that means something has all of them.
    """
    folded = [text.casefold() for text in texts]
    found = total = 0.0
    for stem in _stems(question):
        having = sum(_has(text, stem) for text in folded)
        rarity = math.log(1.0 + (len(texts) - having + 0.5) / (having + 0.5))
        total += rarity
        if having:
            found += rarity
    return found / total if total else 1.0


def has_all_words(question: str, text: str) -> bool:
    """Return whether a text has each word of the question that means something, and there is one."""
    folded, stems = text.casefold(), _stems(question)
    return bool(stems) and all(_has(folded, stem) for stem in stems)


def _stems(question: str) -> list[str]:
    stems: dict[str, None] = {}
    for word in _WORD.findall(question.casefold()):
        if _UNSPACED.search(word):
            stems |= dict.fromkeys(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in STOP_WORDS["en"]:
            stems[word[:STEM_CHARACTERS]] = None
    return list(stems)


def _has(text: str, stem: str) -> bool:
    """Return whether a word of the text begins with the stem. In scripts without spaces, any character begins one."""
    at = text.find(stem)
    while at > 0 and text[at - 1].isalnum() and not _UNSPACED.match(stem):
        at = text.find(stem, at + 1)
    return at >= 0
