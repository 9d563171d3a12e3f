"""Pages of a PDF as pictures, drawn by PDFium."""

from __future__ import annotations

from contextlib import closing
from itertools import islice

import pypdfium2
import pypdfium2.raw as pdfium

from retrieval.parsing.parsed import UnreadableError
from retrieval.parsing.scans.picture import DPI, Picture, scale_for

_POINTS_PER_INCH = 72
_DEPTH = 3  # of groups of objects in which pictures are looked for
_MOST_OBJECTS = 10_000  # that are looked at
_MANY_SHAPES = 20  # from which shapes without a letter may be letters, drawn as shapes
_MOST_OF_PAGE = 0.5
_LITTLE_TEXT = 100  # characters, such as a stamp or a number on a scan


def is_scanned(page: pypdfium2.PdfPage, characters: int) -> bool:
    """Return whether a page with so many characters shows a picture of text: any picture where there are none, one of
    most of the page where there are few."""
    if characters > _LITTLE_TEXT:
        return False
    width, height = page.get_size()
    least = _MOST_OF_PAGE * width * height if characters else 0.0
    shapes = 0
    for each in islice(page.get_objects(max_depth=_DEPTH), _MOST_OBJECTS):
        if each.type == pdfium.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = each.get_bounds()
            if (right - left) * (top - bottom) >= least:
                return True
        shapes += each.type == pdfium.FPDF_PAGEOBJ_PATH
    return not characters and shapes >= _MANY_SHAPES


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
