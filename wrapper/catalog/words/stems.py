"""Stems of words for the word index of SQLite.

FTS5's own tokenizer makes them, in memory, so that `porter` means here what it always meant to a catalogue.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence

from wrapper.catalog.sortable_values import bounded

MAX_KEPT = 200_000
"""The number of words whose stems are remembered: some 30 MB."""

LAST_LETTERS = frozenset("cdegilmnrstuy")
"""The last letters of the endings that `porter` takes off: any other English word, number or identifier is its own
stem."""

LONGEST = 64
"""The most letters of a word that is stemmed."""


class Stemmer:
    """A stemmer that remembers the stems of the words it has met; safe for any number of threads."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._guard = threading.Lock()
        self._tokenizer: sqlite3.Connection | None = None

    def stems(self, words: Sequence[str]) -> list[str]:
        """Return the stem of each word. A word that the tokenizer splits or does not know is its own stem."""
        known = self._known
        found = [known.get(word) or (None if _has_an_ending(word) else bounded(word)) for word in words]
        learnt = self._learn(list({word for word, stem in zip(words, found, strict=True) if stem is None}))
        return [stem or learnt[word] for word, stem in zip(words, found, strict=True)]

    def _learn(self, words: list[str]) -> dict[str, str]:
        if not words:
            return {}
        with self._guard:
            if self._tokenizer is None:
                self._tokenizer = _opened()
            learnt = dict(zip(words, _stemmed(self._tokenizer, words), strict=True))
            # Other threads read the dictionary meanwhile: it is replaced, and in place it only grows.
            if len(self._known) + len(learnt) > MAX_KEPT:
                self._known = learnt
            else:
                self._known.update(learnt)
        return learnt


def _has_an_ending(word: str) -> bool:
    return len(word) <= LONGEST and (word[-1] in LAST_LETTERS or not word.isascii())


def _stemmed(tokenizer: sqlite3.Connection, words: list[str]) -> list[str]:
    tokenizer.execute("INSERT INTO words (words) VALUES ('delete-all')")
    tokenizer.execute("INSERT INTO words (rowid, word) VALUES (1, ?)", ("\n".join(words),))
    tokens = tokenizer.execute("SELECT offset, term FROM tokens").fetchall()
    if len(tokens) == len(words):
        return [stem for _, stem in sorted(tokens)]
    if len(words) == 1:
        return words
    middle = len(words) // 2
    return _stemmed(tokenizer, words[:middle]) + _stemmed(tokenizer, words[middle:])


def _opened() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.execute(
        "CREATE VIRTUAL TABLE words USING fts5(word, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
    )
    connection.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(words, instance)")
    return connection
