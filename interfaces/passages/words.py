"""The words of a question in the texts that were found for it, and the part of a text that is about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from schemas.words.stop_words import stop_words_of

EXCERPT_CHARACTERS = 600
"""The most characters of a passage that are shown, unless all are wanted."""
MOST_WORDS = 10_000
"""The words of a text that are looked at, at most."""
STEM_LETTERS = 5
"""The letters by which a word of a text is one of the question's, whatever its ending."""

_WORD = re.compile(r"\w+")
# Chinese, Japanese, Thai and others write without spaces; two characters are as telling as a word.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2,}")
_NOTHING = re.compile(r"(?!)")


def words_of(question: str) -> re.Pattern[str]:
    """Return what finds the question's words in texts, in any case and with other endings."""
    wanted = []
    words = list(dict.fromkeys(_WORD.findall(question.casefold())))
    is_stop_word = stop_words_of(words)
    for word in words:
        unspaced = "".join(_UNSPACED.findall(word))
        if unspaced:
            wanted += [re.escape(unspaced[place : place + 2]) for place in range(len(unspaced) - 1)]
        elif not is_stop_word(word):
            stem = re.escape(word[:STEM_LETTERS])
            wanted.append(rf"\b{stem}\w*" if len(word) >= STEM_LETTERS else rf"\b{stem}s?\b")
    return re.compile("|".join(wanted), re.IGNORECASE) if wanted else _NOTHING


def excerpt_around(text: str, words: re.Pattern[str], characters: int = EXCERPT_CHARACTERS) -> str:
    """Return the part of a text that has the most different words, cut between words; an ellipsis says where."""
    if len(text) <= characters:
        return text
    found = [
        (each.start(), each.group().casefold()[:STEM_LETTERS]) for each in islice(words.finditer(text), MOST_WORDS)
    ]
    best = _where_most_differ(found, characters * 3 // 4)
    start = max(min(best - characters // 8, len(text) - characters), 0)
    end = min(start + characters, len(text))
    if start:  # not within a word, and at the beginning of a line if there is one
        breaks = (text.find(sign, start - 1, best) for sign in "\n ")
        start = next((each + 1 for each in breaks if each >= 0), start)
    if end < len(text):
        last = max(text.rfind(sign, start + 1, end + 1) for sign in "\n ")
        end = last if last > 0 else end
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _where_most_differ(found: Sequence[tuple[int, str]], reach: int) -> int:
    """Return the first place from which on, within `reach` characters, the most different words are found."""
    best, most, end, within = 0, 0, 0, Counter[str]()
    for place, word in found:
        while end < len(found) and found[end][0] < place + reach:
            within[found[end][1]] += 1
            end += 1
        if len(within) > most:
            best, most = place, len(within)
        within[word] -= 1
        if not within[word]:
            del within[word]
    return best
