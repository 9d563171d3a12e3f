"""Values of form fields and notes put into the lines of a page, where they lie."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

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
    done = [_merged(row, beside.get(index, [])) for index, row in enumerate(rows)]
    return _between(done, sorted(alone, key=lambda word: (-round(word.y / _ONE_LINE), word.x0)))


def _merged(row: Sequence[Word], words: Sequence[Word]) -> list[Word]:
    """Return a row with other words, each before the first of the row that begins further right."""
    waiting = sorted(words, key=lambda word: word.x0)
    done: list[Word] = []
    used = 0
    for word in row:
        while used < len(waiting) and waiting[used].x0 <= word.x0:
            done.append(waiting[used])
            used += 1
        done.append(word)
    return [*done, *waiting[used:]]


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
    done: list[list[Word]] = []
    waiting = iter(added)
    next_one = next(waiting, None)
    for row in rows:
        while next_one and next_one[0].y > row[0].y:
            done.append(next_one)
            next_one = next(waiting, None)
        done.append(row)
    return [*done, *([next_one] if next_one else []), *waiting]
