"""The text of one page as PDFium reads it: its lines, their letters' sizes and weights, and the places of words."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pypdfium2.raw as pdfium

from retrieval.parsing.pdf.divided_words import DIVIDED
from retrieval.parsing.pdf.page_lines import Line

_BOLD = re.compile(rb"bold|black|heavy|semibold|-b$|cmbx", re.I)
_FONT_NAME_BYTES = 128
GAP = 1.6
"""The height of letters, times this, is the least between the words of two columns."""
_NOTHING = "\0"  # stands for a character that says nothing, so that places stay those of PDFium
_SOFT_HYPHEN = "\xad"
# PDFium marks the hyphen at the end of a line, and writes no end of the line behind it.
_LINE = re.compile(r"[^\r\n\x02\ufffe]*[\x02\ufffe]?")
_SPACES = re.compile(" {2,}")
_WORD = re.compile(r"\S+\s*")
_FROM_THE_RIGHT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+")
_SPACE_BEFORE_MARK = re.compile(r" (?=[\u0591-\u05bd\u064b-\u065f\u0670])")


@dataclass(frozen=True, slots=True)
class Word:
    """A word with the white space behind it. first, last: its characters in the page, -1 for a text that is no part of
    the page's, which has a space before it, too; y: of its feet. Places are in points, from the left and the foot of
    the page."""

    text: str
    first: int
    last: int
    x0: float
    x1: float
    y: float


class PageText:
    """The characters of a page. `text` has one for each of PDFium's."""

    def __init__(self, text_page: Any) -> None:
        self._page = text_page
        self._edges = [ctypes.c_double() for _ in range(4)]
        text = _characters(text_page).replace(_SOFT_HYPHEN, _NOTHING)
        self.text = self._reordered(text) if _FROM_THE_RIGHT.search(text) else text

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and the last character of each line, in the order in which PDFium reads them."""
        found = []
        for line in _LINE.finditer(self.text):
            inner = line[0].replace(_NOTHING, " ").strip()
            if inner:
                start = line.start() + line[0].index(inner[0])
                found.append((start, start + len(inner) - 1))
        return found

    def line(self, first: int, last: int) -> Line:
        return self._line(self.text[first : last + 1], first, last)

    def line_of(self, words: Sequence[Word]) -> Line:
        """Return a line of words, of which some may be no part of the page's text."""
        text = "".join(word.text for word in words)
        if any(word.first < 0 for word in words):
            text = _SPACES.sub(" ", text)
        own = [word for word in words if word.first >= 0]
        if not own:
            return Line(shown(text), 0.0, False, words[0].y, words[0].x0)
        return self._line(text, own[0].first, own[-1].last)

    def words(self, first: int, last: int) -> list[Word]:
        """Return the words of a line with their places."""
        return [
            self.word(found[0], first + found.start(), first + found.start() + len(found[0].rstrip()) - 1)
            for found in _WORD.finditer(self.text[first : last + 1])
        ]

    def word(self, text: str, first: int, last: int) -> Word:
        left, foot = self.origin(first)
        ends = [*self.box(first)[:2], *self.box(last)[:2]]
        return Word(text, first, last, min(left, *ends), max(ends), foot)

    def box(self, index: int) -> tuple[float, float, float, float]:
        """Return the left, right, lower and upper edge of a character."""
        left, right, low, high = self._edges
        pdfium.FPDFText_GetCharBox(self._page, index, left, right, low, high)
        return left.value, right.value, low.value, high.value

    def origin(self, index: int) -> tuple[float, float]:
        x, y, *_ = self._edges
        pdfium.FPDFText_GetCharOrigin(self._page, index, x, y)
        return x.value, y.value

    def _line(self, text: str, first: int, last: int) -> Line:
        looked_at = (first, (first + last) // 2, last)
        size = sorted(self.size(index) for index in looked_at)[1]
        bold = all(self.is_bold(index) for index in looked_at)
        x, y = self.origin(first)
        return Line(shown(text), round(size, 1), bold, y, x, is_spread=bold and self._is_spread(first, last, size))

    def _is_spread(self, first: int, last: int, size: float) -> bool:
        """Return whether wide gaps are between the words of a line, but for one behind the number of a section."""
        words = self.words(first, last)
        start = any(map(str.isdigit, words[0].text)) if words else 0
        return any(other.x0 - one.x1 >= GAP * size for one, other in pairwise(words[start:]))

    def size(self, index: int) -> float:
        """Return the size of a letter in points: that of its font, as large as it is drawn."""
        matrix = pdfium.FS_MATRIX()
        pdfium.FPDFText_GetMatrix(self._page, index, matrix)
        return float(pdfium.FPDFText_GetFontSize(self._page, index)) * math.hypot(matrix.c, matrix.d)

    def is_bold(self, index: int) -> bool:
        name, flags = ctypes.create_string_buffer(_FONT_NAME_BYTES), ctypes.c_int()
        length = pdfium.FPDFText_GetFontInfo(self._page, index, name, _FONT_NAME_BYTES, flags)
        return 0 < length <= _FONT_NAME_BYTES and bool(_BOLD.search(name.value))

    def _reordered(self, text: str) -> str:
        """Return a text in which the letters of one glyph stand in their order, also where it is read from the right.

        PDFium turns such runs around letter by letter. The letters of a glyph, and a mark and its letter, have one
        place.
        """
        characters = list(_SPACE_BEFORE_MARK.sub(_NOTHING, text))
        for run in _FROM_THE_RIGHT.finditer(text):
            for start, end in _of_one_place([self.origin(index) for index in range(*run.span())]):
                place = slice(run.start() + start, run.start() + end)
                characters[place] = characters[place][::-1]
        return "".join(characters)


def shown(text: str) -> str:
    """Return a part of a page's text as people see it; the hyphen of a divided word is `DIVIDED`."""
    return text.replace("\x02", DIVIDED).replace("\ufffe", DIVIDED).replace(_NOTHING, "").strip()


def _of_one_place(places: Sequence[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """Yield where several that follow each other have the same place: (first, behind the last)."""
    start = 0
    for index in range(1, len(places) + 1):
        if index == len(places) or places[index] != places[start]:
            if index - start > 1:
                yield start, index
            start = index


def _characters(text_page: Any) -> str:
    count = pdfium.FPDFText_CountChars(text_page)
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (2 * count + 2))()
    written = pdfium.FPDFText_GetText(text_page, 0, count, buffer)
    text = ctypes.string_at(buffer, 2 * max(written - 1, 0)).decode("utf-16-le", "replace")
    if len(text) == count:
        return text
    # PDFium leaves out what has no character; its places are needed.
    codes = (pdfium.FPDFText_GetUnicode(text_page, index) for index in range(count))
    return "".join(chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else _NOTHING for code in codes)
