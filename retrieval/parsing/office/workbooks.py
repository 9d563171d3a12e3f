"""Excel workbooks (XLSX): each sheet a section with a table, and a mark."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from retrieval.parsing.office.archives import core_properties, open_archive
from retrieval.parsing.parsed import ENCRYPTED, MarkdownText, Parsed, UnreadableError, collapsed, heading
from retrieval.parsing.table_text import table

_LABEL = "an Excel workbook"


def parse(content: bytes) -> Parsed:
    """Return the values of all visible sheets. Empty rows and columns are left out."""
    title, metadata = core_properties(open_archive(content, _LABEL))
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = workbook.sheets_metadata
        document, hidden = MarkdownText(), 0
        for sheet in sheets:
            if sheet.typ != SheetTypeEnum.WorkSheet:
                continue
            if sheet.visible != SheetVisibleEnum.Visible:
                hidden += 1
                continue
            rows = _rows(workbook.get_sheet_by_name(sheet.name).iter_rows())
            if rows:
                document.mark(sheet=collapsed(sheet.name))
                document.add(heading(1, sheet.name), table(rows))
    except PasswordError as error:
        raise UnreadableError("is encrypted", ENCRYPTED) from error
    except (CalamineError, ValueError, OSError) as error:
        raise UnreadableError(f"is not {_LABEL}, or is damaged") from error
    return document.parsed(title, metadata, warnings=[f"{hidden} hidden sheets are left out"] if hidden else [])


def _rows(values: Any) -> list[list[str]]:
    rows = [[_shown(value) for value in row] for row in values]
    rows = [row for row in rows if any(row)]
    used = sorted({column for row in rows for column, value in enumerate(row) if value})
    return [[row[column] if column < len(row) else "" for column in used] for row in rows]


def _shown(value: Any) -> str:
    match value:
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds").removesuffix(" 00:00:00")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bool():
            return "TRUE" if value else "FALSE"
    return collapsed(str(value))
