"""Words that say how a question is asked and not what it is about, in several languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from schemas.words.splitting import is_hiragana, split, without_accents


def _read() -> Mapping[str, frozenset[str]]:
    listed: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return {language: frozenset(map(without_accents, split(words))) for language, words in listed.items()}


STOP_WORDS = _read()
"""The stop words of each language, without diacritics; languages are named as in ISO 639-1, English first."""


# No word of these is a word of a language in Latin letters.
_OF_OTHER_SCRIPTS = frozenset().union(*(STOP_WORDS[language] for language in ("ja", "ko", "ru", "th", "zh")))


def stop_words_of(words: Sequence[str], languages: Iterable[str] = tuple(STOP_WORDS)) -> Callable[[str], bool]:
    """Return what tells the words of a question that say nothing. `words` are those of the question (`split`).

    Of the given languages the question seems to be in the one to which most of its words are stop words, the first of
    equals: `war` is a stop word in a German question and none in an English one. Words in hiragana alone are particles
    and endings. When the question has no other words, none is a stop word.
    """
    lists = [STOP_WORDS[language] for language in languages if language in STOP_WORDS] or [frozenset()]
    plain = [without_accents(word) for word in words]
    most = max(lists, key=lambda stops: sum(word in stops for word in plain))

    def is_stop_word(word: str) -> bool:
        plain = without_accents(word)
        return plain in most or plain in _OF_OTHER_SCRIPTS or is_hiragana(word)

    return (lambda word: False) if all(map(is_stop_word, words)) else is_stop_word
