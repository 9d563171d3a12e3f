"""Pages of a PDF as pictures, drawn by PDFium."""

from __future__ import annotations

from contextlib import closing

import pypdfium2

from retrieval.parsing.parsed import UnreadableError
from retrieval.parsing.pdf.rules import Drawn
from retrieval.parsing.scans.picture import DPI, Picture, scale_for

_POINTS_PER_INCH = 72
_MANY_SHAPES = 20  # from which shapes without a letter may be letters, drawn as shapes
_MOST_OF_PAGE = 0.5
_LITTLE_TEXT = 100  # characters, such as a stamp or a number on a scan


def is_scanned(page: pypdfium2.PdfPage, drawn: Drawn, characters: int) -> bool:
    """Return whether a page with so many characters shows a picture of text: any picture where there are none, one of
    most of the page where there are few."""
    if not characters:
        return drawn.picture is not None or drawn.shapes >= _MANY_SHAPES
    width, height = page.get_size()
    return characters <= _LITTLE_TEXT and (drawn.picture or 0.0) >= _MOST_OF_PAGE * width * height


def picture(content: bytes, page: int) -> Picture:
    """Return a page, counted from 1, as a picture."""
    try:
        with closing(pypdfium2.PdfDocument(content)) as document, closing(document[page - 1]) as opened:
            width, height = opened.get_size()
            scale = scale_for(width, height, DPI / _POINTS_PER_INCH)
            with closing(opened.render(scale=scale, grayscale=True)) as bitmap:
                pixels = bytes(bitmap.buffer)
                return Picture(pixels, bitmap.width, bitmap.height, bitmap.stride, round(scale * _POINTS_PER_INCH))
    except pypdfium2.PdfiumError as error:
        raise UnreadableError("is damaged") from error
