"""The words of a question in the texts that were found for it, and the part of a text that is about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schemas.words.comparing import AskedWords
from schemas.words.splitting import normalized

EXCERPT_CHARACTERS = 600
"""The most characters of a passage that are shown, unless all are wanted."""
MOST_CHARACTERS = 100_000
"""The most characters of a text in which the words of a question are looked for."""
BEGINNING = 5
"""The letters by which words of a text are the same one."""


def excerpt_around(text: str, words: AskedWords, characters: int = EXCERPT_CHARACTERS) -> str:
    """Return the part of a text that has the most different words, cut between words; an ellipsis says where."""
    if len(text) <= characters:
        return text
    places = words.places_in(text[:MOST_CHARACTERS])
    found = [(start, normalized(text[start:end]).casefold()[:BEGINNING]) for start, end in places]
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
