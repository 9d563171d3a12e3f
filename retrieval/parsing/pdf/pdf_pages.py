"""PDF: the text layer of each page by PDFium, with the sizes of letters; `pdf_layout` makes Markdown of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from statistics import median

import pypdfium2
import pypdfium2.raw as pdfium

from retrieval.parsing.parsed import (
    EMPTY,
    ENCRYPTED,
    TOO_LARGE,
    Parsed,
    UnreadableError,
    collapsed,
    pages_named,
    sensible_title,
    told,
)
from retrieval.parsing.pdf.annotations import Annotations
from retrieval.parsing.pdf.columns import Row, are_beside, by_columns, is_in_columns, rejoined
from retrieval.parsing.pdf.overlays import with_overlay
from retrieval.parsing.pdf.page_lines import Line, Page
from retrieval.parsing.pdf.page_text import PageText
from retrieval.parsing.pdf.pdf_layout import first_title, markdown_of
from retrieval.parsing.pdf.pdf_pictures import is_scanned
from retrieval.parsing.pdf.ruled_tables import with_tables
from retrieval.parsing.pdf.rules import drawn_on

MAX_PAGES = 5_000
_SAMPLED_LINES = 5  # of a page, by which is seen whether it may have columns that are drawn row by row


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
    unreadable: list[int] = []
    annotations = Annotations(document)
    with annotations.open():
        for number in range(1, count + 1):
            try:
                pages.append(_page(number, document[number - 1], annotations))
            except pypdfium2.PdfiumError:
                unreadable.append(number)
        warnings = annotations.warnings()
    scanned = [page.number for page in pages if page.is_scanned]
    if not scanned and not any(page.lines or page.notes for page in pages):
        raise UnreadableError("has no text layer, and no pictures of text", EMPTY)
    first = first_title(pages)
    text, marks = markdown_of(pages, _outline(document))
    info = {name: text.replace("\0", "") for name, text in document.get_metadata_dict().items()}
    if unreadable:
        warnings.append(f"Damaged and left out: {pages_named(unreadable)}")
    title = sensible_title(info["Title"]) or sensible_title(first)
    return Parsed(text, title, told(info["Author"], info["Keywords"]), marks, count, warnings, scanned)


def _page(number: int, page: pypdfium2.PdfPage, annotations: Annotations) -> Page:
    """Return the lines of a page in the order in which PDFium reads them; what PDFium does not see is put in."""
    with closing(page), closing(page.get_textpage()) as opened:
        text = PageText(opened.raw)
        spans = text.spans()
        drawn, overlay = drawn_on(page), annotations.of(page)
        lines = [text.line(*span) for span in spans]
        size = median(line.size for line in lines) if lines else 0.0
        sample = [text.words(*span) for span in spans[:: len(spans) // _SAMPLED_LINES + 1]]
        has_columns = is_in_columns(sample, size) or are_beside(lines, size)
        has_rules = bool(drawn.level and drawn.upright)
        if has_columns or has_rules or overlay.words:
            rows = with_overlay(rejoined([text.words(*span) for span in spans], size), overlay.words)
            parts = with_tables(rows, drawn, text) if has_rules else list(rows)
            lines = [part if isinstance(part, Line) else text.line_of(part) for part in _in_order(parts, size)]
        return Page(number, lines, is_scanned(page, drawn, sum(len(line.text) for line in lines)), overlay.notes)


def _in_order(parts: Sequence[Row | Line], size: float) -> Iterator[Row | Line]:
    """Yield rows by columns, where there are any, and tables in their places."""
    rows: list[Row] = []
    for part in parts:
        if isinstance(part, Line):
            yield from by_columns(rows, size)
            yield part
            rows = []
        else:
            rows.append(part)
    yield from by_columns(rows, size)


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
