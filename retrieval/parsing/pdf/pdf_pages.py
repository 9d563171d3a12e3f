"""PDF: the text layer of each page by PDFium, with the sizes of letters; `pdf_layout` makes Markdown of it."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from retrieval.parsing.parsed import EMPTY, ENCRYPTED, TOO_LARGE, Parsed, UnreadableError, collapsed, told
from retrieval.parsing.pdf.pdf_layout import Line, Page, markdown_of

MAX_PAGES = 5_000
_LINE_ENDS = "\r\n"
_SOFT_HYPHENS = "\x02\xad\ufffe"  # PDFium marks the hyphen of a divided word with one of them
_BOLD = re.compile(rb"bold|black|heavy|semibold|-b$|cmbx", re.I)
_FONT_NAME_BYTES = 128
# Titles that programs write instead of one: the name of a file, or of themselves.
_NO_TITLE = re.compile(
    r"untitled|microsoft (?:word|powerpoint|excel)\b.*|.*\.(?:docx?|pptx?|xlsx?|pdf|tex|dvi|indd|qxd|ps|odt|rtf|html?)|"
    r"title|document\d*|presentation\d*|\(?anonymous\)?|\W*|https?://\S+|file:\S+",
    re.I,
)
_NAME, _FOUR_DIGITS = re.compile(r"[\w-]+"), re.compile(r"\d{4}")
_ENOUGH_LETTERS = 3  # a title has words


def parse(content: bytes) -> Parsed:
    """Return the text of all pages, in their order, with a mark for each."""
    try:
        document = pypdfium2.PdfDocument(content)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise UnreadableError("is encrypted", ENCRYPTED) from error
        raise UnreadableError("is not a PDF, or is damaged") from error
    if count > MAX_PAGES:
        raise UnreadableError(f"has {count:,} pages; {MAX_PAGES:,} are read at most", TOO_LARGE)
    pages: list[Page] = []
    unreadable = 0
    for number in range(count):
        try:
            pages.append(Page(number + 1, list(_lines(document[number]))))
        except pypdfium2.PdfiumError:
            unreadable += 1
    if not any(page.lines for page in pages):
        raise UnreadableError("has no text layer: it may be scanned, and pictures of text are not read", EMPTY)
    text, marks = markdown_of(pages, _outline(document))
    info = {name: text.replace("\0", "") for name, text in document.get_metadata_dict().items()}
    without = count - unreadable - sum(bool(page.lines) for page in pages)
    warnings = [f"{unreadable} pages are damaged and left out"] if unreadable else []
    if without and without * 2 > count:
        warnings.append(f"{without} of {count} pages have no text layer")
    return Parsed(text, _title(info["Title"]), told(info["Author"], info["Keywords"]), marks, count, warnings)


def _lines(page: pypdfium2.PdfPage) -> Iterator[Line]:
    """Yield the lines of a page in the order in which PDFium reads them."""
    characters: list[str] = []
    first = last = -1
    with closing(page), closing(page.get_textpage()) as opened:
        text_page = opened.raw
        for index in range(pdfium.FPDFText_CountChars(text_page)):
            code = pdfium.FPDFText_GetUnicode(text_page, index)
            character = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
            if character and character in _LINE_ENDS:
                if first >= 0:
                    yield _line(text_page, "".join(characters), first, last)
                characters, first = [], -1
                continue
            if character in _SOFT_HYPHENS:
                character = "\xad" if character else ""
            if character and not character.isspace():
                first, last = index if first < 0 else first, index
            characters.append(character)
        if first >= 0:
            yield _line(text_page, "".join(characters), first, last)


def _line(text_page: Any, text: str, first: int, last: int) -> Line:
    looked_at = (first, (first + last) // 2, last)
    size = sorted(_size(text_page, index) for index in looked_at)[1]
    bold = all(_is_bold(text_page, index) for index in looked_at)
    x, y = ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetCharOrigin(text_page, first, x, y)
    return Line(text.strip(), round(size, 1), bold, y.value)


def _size(text_page: Any, index: int) -> float:
    """Return the size of a letter in points: that of its font, as large as it is drawn."""
    matrix = pdfium.FS_MATRIX()
    pdfium.FPDFText_GetMatrix(text_page, index, matrix)
    return float(pdfium.FPDFText_GetFontSize(text_page, index)) * math.hypot(matrix.c, matrix.d)


def _is_bold(text_page: Any, index: int) -> bool:
    name, flags = ctypes.create_string_buffer(_FONT_NAME_BYTES), ctypes.c_int()
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, _FONT_NAME_BYTES, flags)
    return 0 < length <= _FONT_NAME_BYTES and bool(_BOLD.search(name.value))


def _outline(document: pypdfium2.PdfDocument) -> list[tuple[int, int, str]]:
    """Return the bookmarks of a document: (page from 1, level from 1, title)."""
    found = []
    for bookmark in document.get_toc(max_depth=6):
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        title = collapsed(bookmark.get_title().replace("\0", ""))
        if page is not None and title:
            found.append((page + 1, bookmark.level + 1, title))
    return found


def _title(given: str) -> str | None:
    title = collapsed(given)
    if sum(character.isalpha() for character in title) < _ENOUGH_LETTERS or _NO_TITLE.fullmatch(title):
        return None
    if _NAME.fullmatch(title) and _FOUR_DIGITS.search(title):
        return None
    return title.removeprefix("Microsoft Word - ").removeprefix("Microsoft PowerPoint - ")
