"""CSV and TSV: one table."""

from __future__ import annotations

import csv
import sys
from functools import partial

from retrieval.parsing.parsed import Parsed, UnreadableError
from retrieval.parsing.table_text import table
from retrieval.parsing.text_encodings import decoded

_DELIMITERS = ",;\t|"
_LINES_LOOKED_AT = 20


def _parse(content: bytes, delimiter: str | None) -> Parsed:
    text = decoded(content)
    csv.field_size_limit(sys.maxsize)
    lines = text.splitlines(keepends=True)
    try:
        rows = [row for row in csv.reader(lines, delimiter=delimiter or _delimiter(lines)) if any(map(str.strip, row))]
    except csv.Error as error:
        raise UnreadableError("is not a table: its quotes are wrong") from error
    return Parsed(table(rows) + "\n")


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that divides the first lines into the same number of columns, the most columns first."""

    def columns(delimiter: str) -> tuple[bool, int]:
        rows = [len(row) for row in csv.reader(lines[:_LINES_LOOKED_AT], delimiter=delimiter) if row]
        return (len(set(rows)) == 1 and rows[0] > 1, max(rows, default=0))

    return max(_DELIMITERS, key=columns)


parse_csv = partial(_parse, delimiter=None)
parse_tsv = partial(_parse, delimiter="\t")
