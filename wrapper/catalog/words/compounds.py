"""Words that are written together, as German writes them, taken apart for a question.

A word of a question that no document has may still be known by its parts: `Büroschlüssel` by `Schlüssel`. No dictionary
is needed, since a part counts only if the collection has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from schemas.words.splitting import is_spaceless

COMPOUNDING = frozenset({"da", "de", "et", "fi", "hu", "nl", "no", "sv"})
"""The languages that write compounds as one word."""
SHORTEST_PART = 4
LONGEST_WORD = 40
MOST_SPLITS = 64
"""The most splits of all words of a question together: each asks the index for two words."""

Split = tuple[str, str]


def splits_of(words: Iterable[str]) -> dict[str, Sequence[Split]]:
    """Return all ways to take each word apart in two; words that cannot be compounds are missing, and so are those that
    come when there are splits enough."""
    found: dict[str, Sequence[Split]] = {}
    left = MOST_SPLITS
    for word in words:
        count = len(word) - 2 * SHORTEST_PART + 1
        if 0 < count <= left and len(word) <= LONGEST_WORD and word.isalpha() and not is_spaceless(word):
            found[word] = [(word[:place], word[place:]) for place in range(SHORTEST_PART, SHORTEST_PART + count)]
            left -= count
    return found


def parts_of(splits: Sequence[Split], is_known: Callable[[str], bool]) -> Split | tuple[str] | tuple[()]:
    """Return the parts to ask for: both of the first split whose parts are known, else the longest known ending, which
    says what the thing is, else the longest known beginning."""
    both = next((split for split in reversed(splits) if is_known(split[0]) and is_known(split[1])), None)
    if both:
        return both
    ending = next((last for _, last in splits if is_known(last)), None)
    beginning = next((first for first, _ in reversed(splits) if is_known(first)), None)
    known = ending or beginning
    return (known,) if known else ()
