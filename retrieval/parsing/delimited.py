"""CSV and TSV: tables, and lines of text around them."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from io import StringIO
from itertools import islice
from typing import Any

from retrieval.parsing.parsed import Parsed
from retrieval.parsing.table_text import sheet_blocks
from retrieval.parsing.text_encodings import decoded

_DELIMITERS = ",;\t|"
_ROWS_LOOKED_AT = 20
_CHARACTERS_LOOKED_AT = 1 << 16
_MOST = 0.8  # of what is looked at
_UNCLOSED = "Quotation marks are read as they stand: one of them is never closed"


def _parse(content: bytes, delimiter: str | None) -> Parsed:
    text, warnings = decoded(content), []
    first, _, rest = text.partition("\n")
    named = first.rstrip("\r").strip('"')
    if named[:4].lower() == "sep=" and len(named) == 5:  # Excel's word for the delimiter
        delimiter, text = named[4], rest
    csv.field_size_limit(sys.maxsize)
    delimiter = delimiter or _delimiter(text[:_CHARACTERS_LOOKED_AT])
    try:
        rows = list(_rows(text, delimiter, strict=True))
    except csv.Error as error:
        is_open = "unexpected end" in str(error)
        rows = list(_rows(text, delimiter, quoting=csv.QUOTE_NONE if is_open else csv.QUOTE_MINIMAL))
        warnings = [_UNCLOSED] if is_open else []
    blocks = sheet_blocks([[cell.strip() for cell in row] for row in rows])
    return Parsed("\n\n".join(blocks) + "\n", warnings=warnings)


def _rows(text: str, delimiter: str, **more: Any) -> Iterator[list[str]]:
    return csv.reader(StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, **more)


def _delimiter(text: str) -> str:
    """Return the delimiter that divides most of the first rows into the same number of columns, the most columns first.

    A comma is none where another one divides as well and leaves commas of numbers and sentences only.
    """
    rows = {each: [row for row in islice(_rows(text, each), _ROWS_LOOKED_AT) if row] for each in _DELIMITERS}

    def evenness(delimiter: str) -> tuple[float, int]:
        widths = Counter(map(len, rows[delimiter]))
        width, count = max(widths.items(), key=lambda each: (each[1], each[0]), default=(1, 0))
        return (count / widths.total() if width > 1 else 0, max(widths, default=0))

    best = max(_DELIMITERS, key=evenness)
    for other in _DELIMITERS[1:] if best == "," else "":
        cells = [cell for row in rows[other] for cell in row if "," in cell]
        of_text = sum(", " in cell or (cell.count(",") == 1 and not any(map(str.isalpha, cell))) for cell in cells)
        if evenness(other)[0] >= _MOST and of_text >= _MOST * len(cells):
            return other
    return best


parse_csv = partial(_parse, delimiter=None)
parse_tsv = partial(_parse, delimiter="\t")
