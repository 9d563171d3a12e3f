"""The relevance of what was found, on one scale for all questions: see docs/quality.md, "Relevance"."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from cachetools import LRUCache, cached

from retrieval.ingest.drafts import text_with_heading
from schemas.contracts.search import FusedResult, OracleResult
from schemas.words.comparing import AskedWords, TextWords

CANDIDATES = 50
"""The number of texts in which a question's words are looked for: the nearest ones."""
USUAL_SHARE = 0.6
"""The share of a question's words that the texts of a large collection have which answers it, more or less."""
TOGETHER = 3
"""The number of texts in one of which the question's words are looked for together."""
COMMON_WORD = 1.0
"""The rarity of a word that half of the texts have, roughly."""
CACHED_WORDS = 500_000
"""The most different words of texts that are kept, some 100 in a text: 8 MB, and once each word itself."""


class ComparedTexts:
    """The words of texts, usable by several threads. They are kept for the next question: the same texts are near to
    one after another."""

    def __init__(self, cached_words: int = CACHED_WORDS) -> None:
        known: LRUCache[Any, TextWords] = LRUCache(cached_words, getsizeof=lambda words: len(words) + 1)
        self.words_of = cached(known, lock=threading.Lock())(_words_of)


def _words_of(text: str) -> TextWords:
    return TextWords(text)


class WordsFound:
    """The words of a question in the texts that are nearest to it, nearest first: how many of them there are at all,
    and how many a single text has, rare words counting most.

    Few texts tell little about that: of five, what they have counts a tenth, and `USUAL_SHARE` the rest.

    A word is as rare as it is among these texts, so those that none has count most, and beside them stands one common
    word that none has: to find what is everywhere says little. Words are compared as the word index compares them
    (`schemas/words/comparing.py`).
    """

    @classmethod
    def of(
        cls, question: str, nearest: Sequence[OracleResult | FusedResult], compared: ComparedTexts | None = None
    ) -> WordsFound:
        """Look for the words in the first `CANDIDATES` results, and in the headings above them."""
        texts = [text_with_heading(each.content, each.metadata) for each in nearest[:CANDIDATES]]
        return cls(question, texts, told=len(texts) / CANDIDATES, compared=compared)

    def __init__(
        self, question: str, texts: Sequence[str], *, told: float = 1.0, compared: ComparedTexts | None = None
    ) -> None:
        self._told = told
        self._compared = compared or ComparedTexts()
        asked = AskedWords(question)
        self._texts = list(map(self._compared.words_of, texts))
        self._words = asked.known_in(self._texts)
        # Else there is too little to find, and no text has it: `How do I write a will?` is not about writing.
        self._says_enough = 0 < asked.count <= len(self._words) * 3
        self._having = {id(words): self._found_in(words) for words in self._texts}
        self._rarities: list[float] = []
        self._anywhere = 0.0
        together = [0.0] * min(TOGETHER, len(texts))
        for place in range(len(self._words)):
            having = [self._having[id(words)][place] for words in self._texts]
            count = sum(having)
            rarity = math.log(1.0 + (len(texts) - count + 0.5) / (count + 0.5))
            self._rarities.append(rarity)
            self._anywhere += rarity if count else 0.0
            together = [found + (rarity if has else 0.0) for found, has in zip(together, having, strict=False)]
        self._together = max(together, default=0.0)
        self._total = COMMON_WORD + sum(self._rarities)

    @property
    def share(self) -> float:
        """The share of the words that were found, in [0, 1).

        It is the mean of two: the share that any of the texts has, and the greatest that one of the first `TOGETHER`
        has, since words of a question stand together where it is answered.
        """
        return self._share(self._together)

    def found_in(self, text: str) -> tuple[float, bool]:
        """Return (the share for a text that is not the nearest: what it has itself takes the place of the first ones;
        whether it has each word of the question that means something, if those are a third of its words)."""
        words = self._compared.words_of(text)
        having = self._having.get(id(words)) or self._found_in(words)
        own = sum(rarity for rarity, has in zip(self._rarities, having, strict=True) if has)
        return self._share(own), self._says_enough and all(having)

    def _found_in(self, words: TextWords) -> list[bool]:
        return [word.is_in(words) for word in self._words]

    def _share(self, together: float) -> float:
        found = (self._anywhere + together) / 2.0 / self._total
        return self._told * found + (1.0 - self._told) * USUAL_SHARE
