"""Workbooks of Excel and OpenDocument: each sheet a section with a table, and a mark."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any

from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

from retrieval.parsing.archives import core_properties, open_archive
from retrieval.parsing.markdown_text import MarkdownText, collapsed, heading, table, tags_of
from retrieval.parsing.parsed import EMPTY, ENCRYPTED, Parsed, ParseError


def _parse(content: bytes, label: str) -> Parsed:
    """Return the values of all visible sheets. Empty rows and columns are left out."""
    archive = open_archive(content, label)
    if archive.has("META-INF/manifest.xml") and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise ParseError("is encrypted", ENCRYPTED)
    properties = core_properties(archive)
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
        raise ParseError("is encrypted", ENCRYPTED) from error
    except (CalamineError, ValueError, OSError) as error:
        raise ParseError(f"is not {label}, or is damaged") from error
    if not document.text:
        raise ParseError("contains no text", EMPTY)
    metadata: dict[str, Any] = {"author": properties["creator"]} if "creator" in properties else {}
    if tags := tags_of(properties.get("keywords")):
        metadata["tags"] = tags
    return Parsed(
        document.text,
        properties.get("title"),
        metadata,
        document.marks,
        warnings=[f"{hidden} hidden sheets are left out"] if hidden else [],
    )


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


parse_xlsx = partial(_parse, label="an Excel workbook")
parse_ods = partial(_parse, label="an OpenDocument spreadsheet")
