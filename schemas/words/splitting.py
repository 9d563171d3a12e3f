"""Splitting of texts of any script into words.

Texts are compared in Unicode's form NFKC and without case: full-width letters, ligatures, half-width katakana and ß are
what they stand for. A word is letters and digits with the marks on them.

Some scripts have no spaces between words, or none between a word and its endings. There, a word is two letters that
follow each other, and the last letter of a run alone: every letter begins one word, 東京都 is 東京, 京都 and 都.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, groupby

_SPACELESS = (
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3105-\u312f\u31a0-\u31bf"  # kana, bopomofo
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e"  # Myanmar
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
)
"""The letters of scripts without spaces, as a set of a regular expression spells them."""


# All up to U+FE2F but ideographs, the syllables of Hangul and what is for private use, where there are none.
_MAY_BE_MARKS = (range(0x300, 0x3400), range(0xA000, 0xAC00), range(0xFB00, 0xFE30))


def _marks() -> str:
    """Return the marks that letters carry, as a set of a regular expression spells them."""
    codes = (code for code in chain(*_MAY_BE_MARKS) if unicodedata.category(chr(code)).startswith("M"))
    ranges = [[code for _, code in run] for _, run in groupby(enumerate(codes), key=lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in ranges)


MARKS = _marks()
RUN = rf"[^\W_](?:[^\W_]|[{MARKS}])*"
"""A run of letters and digits with their marks, of any scripts, in a text of the form NFKC."""

_WORD = re.compile(rf"[{_SPACELESS}][{_SPACELESS}{MARKS}]*|[^\W_{_SPACELESS}](?:[^\W_{_SPACELESS}]|[{MARKS}])*")
# One expression would do: most texts have no letter that needs it, and are split faster without.
_NEEDS_CARE = re.compile(rf"[{_SPACELESS}{MARKS}]")
_SIMPLE = re.compile(r"[^\W_]+")
_SIGNS = re.compile(r"[^\w\x00-\x7f]+")
_LETTER = re.compile(rf".[{MARKS}]*", re.DOTALL)
_OF_SPACELESS = re.compile(rf"[{_SPACELESS}]")
_ONLY_SPACELESS = re.compile(rf"[{_SPACELESS}]+")
_PART = re.compile(rf"[{_SPACELESS}][{_SPACELESS}{MARKS}]*|[^{_SPACELESS}]+")
_HIRAGANA = re.compile("[\u3041-\u3096\u309d-\u309f\u30fc]+")
_UNSEEN_SIGNS = "\u00ad\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
# Signs inside words that nobody sees: soft hyphens, joiners, variants of a letter's form.
_UNSEEN = re.compile(f"[{_UNSEEN_SIGNS}]")
TOKEN = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}{_UNSEEN_SIGNS}])*")
"""A run of letters and digits of a text as it is written, with what stands inside its words."""
LETTER = re.compile(rf".[{MARKS}{_UNSEEN_SIGNS}\uff9e\uff9f]*", re.DOTALL)
"""A letter as it is written, with its marks."""
_FOLDED_ASCII = bytes(
    ord(letter.lower()) if (letter := chr(code)).isalnum() and code < 128 else 32 for code in range(256)
)
# The classes of marks that words are compared without: those of Hebrew, Arabic and the scripts of Europe. Elsewhere
# marks are vowels, or make another letter of one.
_LEFT_OUT = frozenset([1, *range(10, 37), *range(200, 256)])


def normalized(text: str) -> str:
    """Return a text in the form NFKC, without the signs inside words that nobody sees; case stays."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _UNSEEN.sub("", text))


def split(text: str) -> list[str]:
    """Return the words of a text, in order, without case but with their diacritics."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", normalized(text).casefold())
        if _NEEDS_CARE.search(text):
            return [part for word in _WORD.findall(text) for part in _parts(word)]
        text = _SIGNS.sub(" ", text)
        if not text.isascii():
            return _SIMPLE.findall(text)
    return text.encode().translate(_FOLDED_ASCII).decode().split()


def _parts(word: str) -> list[str]:
    if not is_spaceless(word):
        return [word]
    letters = _LETTER.findall(word)
    return list(map("".join, zip(letters, [*letters[1:], ""], strict=True)))


def script_parts(text: str) -> list[str]:
    """Return a text in parts, in order: those in scripts without spaces, and those between them."""
    return _PART.findall(text)


def is_spaceless(word: str) -> bool:
    """Return whether a word begins with a letter of a script without spaces."""
    return not word.isascii() and _OF_SPACELESS.match(word) is not None


def only_spaceless(text: str) -> bool:
    """Return whether a text is of letters of scripts without spaces alone, none with a mark."""
    return _ONLY_SPACELESS.fullmatch(text) is not None


def is_letter(word: str) -> bool:
    """Return whether a word of `split` is a single letter of a script without spaces."""
    return is_spaceless(word) and _LETTER.fullmatch(word) is not None


def asked_words(words: Sequence[str]) -> list[str]:
    """Return the words of a question (`split`) that are asked for: not the last letter of a run without spaces, which
    the word before it has."""
    before = ["", *words]
    return [
        word
        for last, word in zip(before, words, strict=False)
        if not (is_letter(word) and is_spaceless(last) and not is_letter(last))
    ]


def is_hiragana(word: str) -> bool:
    """Return whether a word is in hiragana alone, as particles and endings of Japanese are."""
    return not word.isascii() and _HIRAGANA.fullmatch(word) is not None


def without_accents(word: str) -> str:
    """Return a word of `split` without its diacritics."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    kept = "".join(letter for letter in decomposed if unicodedata.combining(letter) not in _LEFT_OUT)
    return unicodedata.normalize("NFC", kept)
