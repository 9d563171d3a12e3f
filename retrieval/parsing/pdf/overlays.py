"""Values of form fields and notes put into the lines of a page, where they lie."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import merge

from retrieval.parsing.pdf.page_text import Word

_ONE_LINE = 7.0  # points between feet of letters and those of a field beside them
_LOOKED_AT = 50


def with_overlay(rows: Sequence[Sequence[Word]], words: Sequence[Word]) -> list[list[Word]]:
    """Return the rows of a page with words that lie over it: in the row beside them, else as rows between others."""
    beside: dict[int, list[Word]] = {}
    by_height = sorted(range(len(rows)), key=lambda index: rows[index][0].y)
    heights = [rows[index][0].y for index in by_height]
    alone: list[Word] = []
    for word in words:
        start = bisect_left(heights, word.y - _ONE_LINE)
        near = [index for index in by_height[start : start + _LOOKED_AT] if rows[index][0].y <= word.y + _ONE_LINE]
        if not near:
            alone.append(word)
            continue
        beside.setdefault(min(near, key=lambda index: _distance(rows[index], word)), []).append(word)
    for some in beside.values():
        some.sort(key=_place)
    done = [list(merge(beside.get(index, ()), row, key=_place)) for index, row in enumerate(rows)]
    return _between(done, sorted(alone, key=lambda word: (-round(word.y / _ONE_LINE), word.x0)))


def _place(word: Word) -> float:
    return word.x0


def _distance(row: Sequence[Word], word: Word) -> tuple[float, float]:
    """Return how far a word is beside a row, and how much higher or lower."""
    return max(row[0].x0 - word.x1, word.x0 - row[-1].x1, 0.0), abs(row[0].y - word.y)


def _between(rows: list[list[Word]], alone: Sequence[Word]) -> list[list[Word]]:
    """Return rows, and before the first that is lower those that are alone, which come from the top."""
    added: list[list[Word]] = []
    for word in alone:
        if added and round(added[-1][0].y / _ONE_LINE) == round(word.y / _ONE_LINE):
            added[-1].append(word)
        else:
            added.append([word])
    return list(merge(rows, added, key=lambda row: -row[0].y))
