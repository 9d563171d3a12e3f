"""Terms of the word index: the stems of words, without diacritics.

English words are stemmed by FTS5's own tokenizer, in memory, so that `porter` means here what it always meant to a
catalogue; words of other languages by Snowball's stemmers, which know them by their diacritics.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import Stemmer as snowball

from schemas.bounds import bounded
from schemas.words.shadows import SIGNED
from schemas.words.splitting import is_spaceless, without_accents

DEFAULT = "en"
LANGUAGES = {
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hu": "hungarian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "sv": "swedish",
    "tr": "turkish",
}
"""The languages in Latin letters besides English (ISO 639-1), and Snowball's names of them."""

MAX_KEPT = 200_000
"""The number of words of a language whose terms are remembered: some 30 MB."""

LAST_LETTERS = frozenset("cdegilmnrstuy")
"""The last letters of the endings that `porter` takes off: any other English word, number or identifier is its own
stem."""

MOST_COMPARED = 20_000
"""The number of words whose terms in all languages are remembered: some 20 MB."""

LONGEST = 64
"""The most letters of a word that is stemmed."""

# The stemmers of words by the block of their first letter: where each block begins, and the stemmer up to the next.
_BLOCKS = (
    ("\u0370", "greek"),
    ("\u0400", "russian"),
    ("\u0530", "armenian"),
    ("\u0590", ""),
    ("\u0600", "arabic"),
    ("\u0700", ""),
    ("\u0900", "hindi"),
    ("\u0980", ""),
    ("\u0b80", "tamil"),
    ("\u0c00", ""),
    ("\u1e00", DEFAULT),
    ("\u1f00", "greek"),
    ("\u2000", ""),
)
_FIRSTS = [first for first, _ in _BLOCKS]


class Stemmer:
    """The terms of words; it remembers those that it has met, and is safe for any number of threads."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._guard = threading.Lock()
        self._tokenizer: sqlite3.Connection | None = None
        self._snowball: dict[str, snowball.Stemmer] = {}

    def stems(self, words: Sequence[str], language: str = DEFAULT) -> list[str]:
        """Return the term of each word of a text in a language (`wrapper/catalog/words/languages.py`).

        A word in other letters is stemmed by the rules of a language that has them, or is its own stem.
        """
        known = self._known.get(language, {})
        found = [known.get(word) or _plain(word, language) for word in words]
        learnt = self._learn(list({word for word, stem in zip(words, found, strict=True) if stem is None}), language)
        return [stem or learnt[word] for word, stem in zip(words, found, strict=True)]

    def by_rules_of(self, word: str, languages: Iterable[str]) -> list[tuple[str, str]]:
        """Return the term of a word in each of some languages, and remember none."""
        plain = _plain(word, "")
        with self._guard:
            return [(each, plain or self._stemmed([word], _rules(word, each))[0]) for each in languages]

    def _learn(self, words: list[str], language: str) -> dict[str, str]:
        if not words:
            return {}
        by_rules: dict[str, list[str]] = {}
        for word in words:
            by_rules.setdefault(_rules(word, language), []).append(word)
        learnt: dict[str, str] = {}
        with self._guard:
            for rules, some in by_rules.items():
                learnt |= zip(some, self._stemmed(some, rules), strict=True)
            # Other threads read the dictionaries meanwhile: they are replaced, and in place they only grow.
            known = self._known.get(language)
            if known is None or len(known) + len(learnt) > MAX_KEPT:
                self._known[language] = dict(learnt)
            else:
                known.update(learnt)
        return learnt

    def _stemmed(self, words: list[str], rules: str) -> list[str]:
        if rules == DEFAULT:
            if self._tokenizer is None:
                self._tokenizer = _opened()
            return _by_porter(self._tokenizer, [without_accents(word) for word in words])
        if rules and rules not in self._snowball:
            self._snowball[rules] = snowball.Stemmer(rules, 0)
        if not rules:
            return [bounded(without_accents(word)) for word in words]
        return self._stemmed_without_accents(words, self._snowball[rules])

    @staticmethod
    def _stemmed_without_accents(words: list[str], stemmer: snowball.Stemmer) -> list[str]:
        stems = [stem or word for word, stem in zip(words, stemmer.stemWords(words), strict=True)]
        found = [without_accents(stem) for stem in stems]
        # A stem may end in letters that are an ending without their accents: "café", but "caf" of "cafe" in German.
        again = [place for place, (stem, bare) in enumerate(zip(stems, found, strict=True)) if stem != bare]
        for place, stem in zip(again, stemmer.stemWords([found[place] for place in again]), strict=True):
            found[place] = without_accents(stem) or found[place]
        return [bounded(term) for term in found]


_of_questions = Stemmer()
"""Stems the words that questions are compared with."""


def english_stem(word: str) -> str:
    """Return the term of a word of an English text."""
    return _of_questions.stems([word])[0]


@lru_cache(MOST_COMPARED)
def all_stems(word: str) -> Mapping[str, frozenset[str]]:
    """Return the terms of a word by the rules of each language, each with the languages that have it."""
    found: dict[str, set[str]] = {english_stem(word): {DEFAULT}}
    for language, stem in _of_questions.by_rules_of(word, LANGUAGES):
        found.setdefault(stem, set()).add(language)
    return {stem: frozenset(languages) for stem, languages in found.items()}


def _plain(word: str, language: str) -> str | None:
    """Return the term of a word that has no ending for sure, else None."""
    if len(word) > LONGEST or word[0] == SIGNED or is_spaceless(word):
        return bounded(without_accents(word))
    if word.isascii() and ((language == DEFAULT and word[-1] not in LAST_LETTERS) or word.isdigit()):
        return word
    return None


def _rules(word: str, language: str) -> str:
    """Return the name of the stemmer of a word: `DEFAULT`, one of Snowball's, or an empty one for none."""
    place = bisect(_FIRSTS, word[0])
    rules = _BLOCKS[place - 1][1] if place else DEFAULT
    return LANGUAGES.get(language, DEFAULT) if rules == DEFAULT else rules


def _by_porter(tokenizer: sqlite3.Connection, words: list[str]) -> list[str]:
    tokenizer.execute("INSERT INTO words (words) VALUES ('delete-all')")
    tokenizer.execute("INSERT INTO words (rowid, word) VALUES (1, ?)", ("\n".join(words),))
    tokens = tokenizer.execute("SELECT offset, term FROM tokens").fetchall()
    if len(tokens) == len(words):
        return [stem for _, stem in sorted(tokens)]
    if len(words) == 1:
        return words
    middle = len(words) // 2
    return _by_porter(tokenizer, words[:middle]) + _by_porter(tokenizer, words[middle:])


def _opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.execute(
        "CREATE VIRTUAL TABLE words USING fts5(word, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
    )
    connection.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(words, instance)")
    return connection
