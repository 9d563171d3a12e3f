"""Which words of a question a text has, compared as the word index compares them.

Words are folded and stemmed alike (`schemas/words/splitting.py`, `schemas/words/stems.py`). Nobody says here in which
language a text is, so one that is not plainly English is read by the rules of every language. Beyond that, a word of
five letters or more is known by the first five, and a German participle by its verb.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

from schemas.words.shadows import SIGNED, identifier_words, joined_and_signed, signed_names, with_joined_numbers
from schemas.words.splitting import (
    LETTER,
    TOKEN,
    asked_words,
    is_spaceless,
    normalized,
    only_spaceless,
    split,
    without_accents,
)
from schemas.words.stems import DEFAULT, all_stems, english_stem
from schemas.words.stop_words import STOP_WORDS, stop_words_of

BEGINNING = 5
"""The letters by which a longer word is known, whatever its ending."""
SHARED = 3
"""The letters with which two words begin that have one stem."""
SHORTEST_VERB = 4
PARTICIPLES = {"de": "ge", "nl": "ge"}
"""What participles begin with in languages whose stemmers leave it on."""
ENGLISH_SHARE = 0.2
"""The share of English stop words in a text that is English beyond doubt."""


class TextWords:
    """The words of a text in a form in which those of a question are found fast."""

    __slots__ = ("_plain", "_spelt", "is_english")

    def __init__(self, text: str) -> None:
        text = normalized(text)
        words = split(text)
        self.is_english = sum(map(STOP_WORDS[DEFAULT].__contains__, words)) >= ENGLISH_SHARE * len(words)
        every = {*words, *split(identifier_words(text)), *joined_and_signed(text)}
        spelt = {} if text.isascii() else {without_accents(word): word for word in every}
        self._plain = sorted(map(sys.intern, spelt or every))
        self._spelt = {plain: word for plain, word in spelt.items() if plain != word}

    def __len__(self) -> int:
        return len(self._plain)

    def any_form(self, beginnings: Sequence[str], is_form: Callable[[str], bool]) -> bool:
        """Return whether any word, as it is spelt with its diacritics, is a form of another. Only those are looked at
        whose plain form has one of the beginnings."""
        plain, spelt = self._plain, self._spelt
        for beginning in beginnings:
            place = bisect_left(plain, beginning)
            while place < len(plain) and (word := plain[place]).startswith(beginning):
                if is_form(spelt.get(word, word)):
                    return True
                place += 1
        return False


class AskedWord:
    """A word of a question, or a name with its signs, that says what is asked for."""

    def __init__(self, word: str) -> None:
        self.plain = without_accents(word)
        self._is_spaceless = is_spaceless(word)
        is_short = len(word) < SHARED and not self._is_spaceless
        self._is_whole = is_short or word[0] == SIGNED or any(map(str.isdigit, word))
        self._beginning = self.plain if self._is_spaceless else self.plain[:BEGINNING]
        self._is_known_by_beginning = self._is_spaceless or len(self.plain) >= BEGINNING
        is_stemmed = not (self._is_whole or self._is_spaceless)
        self._stems = all_stems(word) if is_stemmed else {}
        self._english = english_stem(word) if is_stemmed else self.plain
        self._participles = tuple(
            PARTICIPLES[language] + stem
            for stem, languages in self._stems.items()
            for language in languages & PARTICIPLES.keys()
            if len(stem) >= SHORTEST_VERB
        )
        self._beginnings = (self.plain if self._is_whole else self.plain[:SHARED],)
        self._all_beginnings = self._beginnings + self._participles
        self._is_form_in_english = cache(partial(self._is_form_of, is_english=True))
        self._is_form_in_any = cache(partial(self._is_form_of, is_english=False))

    def is_in(self, text: TextWords) -> bool:
        if text.is_english:
            return text.any_form(self._beginnings, self._is_form_in_english)
        return text.any_form(self._all_beginnings, self._is_form_in_any)

    def is_form_of(self, word: str, is_english: bool) -> bool:
        """Return whether a word of a text, as `split` has it, is this one."""
        return self._is_form_in_english(word) if is_english else self._is_form_in_any(word)

    def _is_form_of(self, word: str, is_english: bool) -> bool:
        plain = without_accents(word)
        if plain == self.plain or self._is_whole:
            return plain == self.plain
        if self._is_known_by_beginning and plain.startswith(self._beginning):
            return True
        if self._is_spaceless or is_spaceless(word):
            return False
        if not is_english and plain.startswith(self._participles):
            return True
        if is_english:
            return english_stem(word) == self._english
        theirs = all_stems(word)
        return any(not languages.isdisjoint(theirs.get(stem, ())) for stem, languages in self._stems.items())


class AskedWords:
    """The words of a question that say what is asked for. `count` is the number of all its words."""

    def __init__(self, question: str) -> None:
        question = normalized(question)
        words = asked_words(split(with_joined_numbers(question)))
        is_stop_word = stop_words_of(words)
        self.count = len(words)
        self._words = {word: AskedWord(word) for word in words if not is_stop_word(word)}
        self._signed = {name: AskedWord(name) for name in signed_names(question)}

    def known_in(self, texts: Sequence[TextWords]) -> list[AskedWord]:
        """Return the words that are asked of texts: a name with its signs where any of them has these, else without."""
        known = {name: word for name, word in self._signed.items() if any(map(word.is_in, texts))}
        made_of = {word for name in known for word in split(name)}
        return [*known.values(), *(word for spelt, word in self._words.items() if spelt not in made_of)]

    def places_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where words of the question begin and end in a text, as it is written, in order."""
        if not self._words:
            return
        is_english = TextWords(text).is_english
        begun, ended = 0, 0
        for token in TOKEN.finditer(text):
            for start, end, words in _parts(token):
                if any(self._asks_for(word, is_english) for word in words):
                    if start > ended or not ended:
                        if ended:
                            yield begun, ended
                        begun = start
                    ended = end
        if ended:
            yield begun, ended

    def _asks_for(self, word: str, is_english: bool) -> bool:
        return any(asked.is_form_of(word, is_english) for asked in self._words.values())


def _parts(token: re.Match[str]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the parts of a token that are words: itself, or in scripts without spaces each two letters."""
    folded = token[0].casefold()
    if len(folded) > 1 and only_spaceless(folded) and normalized(folded) == folded:
        for place in range(len(folded) - 1):
            yield token.start() + place, token.start() + place + 2, [folded[place : place + 2]]
        return
    words = split(token[0])
    if len(words) < 2 and not (words and is_spaceless(words[0])):
        yield *token.span(), words
        return
    letters = [(token.start() + each.start(), token.start() + each.end()) for each in LETTER.finditer(token[0])]
    text = token.string
    place = 0
    while place < len(letters):
        start, end = letters[place]
        letter = split(text[start:end])
        following = place + 1
        if letter and is_spaceless(letter[0]):
            if following < len(letters):
                pair = split(text[start : letters[following][1]])
                if pair and is_spaceless(pair[-1]):
                    yield start, letters[following][1], pair[:1]
        else:
            while following < len(letters) and not is_spaceless((split(text[slice(*letters[following])]) or [""])[0]):
                end = letters[following][1]
                following += 1
            yield start, end, split(text[start:end])
        place = following
