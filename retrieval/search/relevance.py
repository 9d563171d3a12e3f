"""The relevance of what was found, on one scale for all questions: see docs/quality.md, "Relevance"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from retrieval.ingest.drafts import text_with_heading
from schemas.contracts.search import FusedResult, OracleResult
from schemas.words.stop_words import STOP_WORDS

CANDIDATES = 50
"""The number of texts in which a question's words are looked for: the nearest ones."""
USUAL_SHARE = 0.6
"""The share of a question's words that the texts of a large collection have which answers it, more or less."""
TOGETHER = 3
"""The number of texts in one of which the question's words are looked for together."""
COMMON_WORD = 1.0
"""The rarity of a word that half of the texts have, roughly."""
STEM_CHARACTERS = 5

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words: there, two neighbouring characters count as a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class WordsFound:
    """The words of a question in the texts that are nearest to it, nearest first: how many of them there are at all,
    and how many a single text has, rare words counting most.

    Few texts tell little about that: of five, what they have counts a tenth, and `USUAL_SHARE` the rest.

    A word is as rare as it is among these texts, so those that none has count most, and beside them stands one common
    word that none has: to find what is everywhere says little. Words are compared by their first letters.
    """

    @classmethod
    def of(cls, question: str, nearest: Sequence[OracleResult | FusedResult]) -> WordsFound:
        """Look for the words in the first `CANDIDATES` results, and in the headings above them."""
        texts = [text_with_heading(each.content, each.metadata) for each in nearest[:CANDIDATES]]
        return cls(question, texts, told=len(texts) / CANDIDATES)

    def __init__(self, question: str, texts: Sequence[str], *, told: float = 1.0) -> None:
        self._told = told
        stems = _stems(question)
        # Else there is too little to find, and no text has it: `How do I write a will?` is not about writing.
        self._says_enough = 0 < len(_WORD.findall(question)) <= len(stems) * 3
        folded = [text.casefold() for text in texts]
        self._rarities: dict[str, float] = {}
        self._anywhere = 0.0
        together = [0.0] * min(TOGETHER, len(texts))
        for stem in stems:
            having = [_has(text, stem) for text in folded]
            count = sum(having)
            self._rarities[stem] = rarity = math.log(1.0 + (len(texts) - count + 0.5) / (count + 0.5))
            self._anywhere += rarity if count else 0.0
            together = [found + (rarity if has else 0.0) for found, has in zip(together, having, strict=False)]
        self._together = max(together, default=0.0)
        self._total = COMMON_WORD + sum(self._rarities.values())

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
        folded, own, has_all = text.casefold(), 0.0, self._says_enough
        for stem, rarity in self._rarities.items():
            if _has(folded, stem):
                own += rarity
            else:
                has_all = False
        return self._share(own), has_all

    def _share(self, together: float) -> float:
        found = (self._anywhere + together) / 2.0 / self._total
        return self._told * found + (1.0 - self._told) * USUAL_SHARE


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
