"""Words that say how a question is asked and not what it is about, in several languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from schemas.words.splitting import is_hiragana, split, without_accents

_LISTED: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))

STOP_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(map(without_accents, split(words))) for language, words in _LISTED.items()
}
"""The stop words of each language as `split` has them, without diacritics; English, the language `en`, is the first."""

SPACELESS_STOP_WORDS = tuple(word for language in ("ja", "ko", "th", "zh") for word in _LISTED[language].split())
"""The stop words of scripts without spaces, whole."""

# No word of these is a word of a language in Latin letters.
_OF_OTHER_SCRIPTS = frozenset().union(*(STOP_WORDS[language] for language in ("ja", "ko", "ru", "th", "zh")))


def stop_words_of(words: Sequence[str], languages: Iterable[str] = tuple(STOP_WORDS)) -> Callable[[str], bool]:
    """Return what tells the words of a question that say nothing. `words` are those of the question (`split`).

    Of the given languages the question seems to be in the one to which most of its words are stop words, the first of
    equals: `war` is a stop word in a German question and none in an English one. Words in hiragana alone are particles
    and endings.
    """
    lists = [STOP_WORDS[language] for language in languages if language in STOP_WORDS] or [frozenset()]
    plain = [without_accents(word) for word in words]
    most = max(lists, key=lambda stops: sum(word in stops for word in plain))

    def is_stop_word(word: str) -> bool:
        plain = without_accents(word)
        return plain in most or plain in _OF_OTHER_SCRIPTS or is_hiragana(word)

    return is_stop_word
