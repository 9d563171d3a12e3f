"""Excel workbooks (XLSX): each visible sheet a section with what it shows, and a mark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from lxml import etree

from retrieval.parsing.office.archives import (
    Archive,
    attribute,
    core_properties,
    keep_choices,
    open_archive,
    related,
    streamed,
    whole_number,
)
from retrieval.parsing.office.cell_formats import BUILT_IN, GENERAL, shown, shown_text
from retrieval.parsing.office.sheets import Sheet, Spreadsheet
from retrieval.parsing.parsed import Parsed, UnreadableError, collapsed, escaped
from retrieval.parsing.table_text import one_line

_LABEL = "an Excel workbook"
_MAIN = "xl/workbook.xml"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_MOST_COLUMNS = 16_384


@dataclass(slots=True)
class _Shared:
    """What the sheets of a workbook share. `codes` are the formats of the styles of cells."""

    strings: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    since_1904: bool = False
    is_to_be_calculated: bool = False


def parse(content: bytes) -> Parsed:
    """Return the visible sheets as they are shown."""
    archive = open_archive(content, _LABEL)
    title, metadata = core_properties(archive)
    main = next((part for kind, part in related(archive, "").values() if kind == "officeDocument"), _MAIN)
    relations, workbook = related(archive, main), archive.xml(main)
    if not workbook.tag.endswith("}workbook"):
        raise UnreadableError(f"is not {_LABEL}")
    shared = _Shared(
        since_1904=_is_set(workbook.find("{*}workbookPr"), "date1904"),
        is_to_be_calculated=_is_set(workbook.find("{*}calcPr"), "fullCalcOnLoad"),
    )
    for kind, part in relations.values():
        if kind == "sharedStrings" and archive.has(part):
            shared.strings = [_words(item) for item in streamed(archive, part, "si")]
        elif kind == "styles" and archive.has(part):
            shared.codes = _codes(archive.xml(part))
    spreadsheet = Spreadsheet()
    for element in workbook.iterfind("{*}sheets/{*}sheet"):
        kind, part = relations.get(attribute(element, "id") or "", ("", ""))
        name = collapsed(element.get("name", ""))
        if kind != "worksheet":
            continue
        if element.get("state", "visible") != "visible":
            spreadsheet.hidden.append(name)
            continue
        drawn: list[str] = []
        for kind, target in related(archive, part).values():
            if kind == "comments" and archive.has(target):
                spreadsheet.comments += sum(1 for _ in archive.xml(target).iter("{*}comment"))
            elif kind == "drawing" and archive.has(target):
                drawn += _drawn(archive.xml(target))
        spreadsheet.add(_sheet(archive, part, Sheet(name), shared), *drawn)
    return spreadsheet.parsed(title, metadata)


def _codes(styles: etree._Element) -> list[str]:
    """Return the codes of formats by the number that a cell has as its style."""
    own = {each.get("numFmtId"): each.get("formatCode", GENERAL) for each in styles.iterfind("{*}numFmts/{*}numFmt")}
    numbers = (each.get("numFmtId", "0") for each in styles.iterfind("{*}cellXfs/{*}xf"))
    return [own[number] if number in own else BUILT_IN.get(whole_number(number), GENERAL) for number in numbers]


def _sheet(archive: Archive, part: str, sheet: Sheet, shared: _Shared) -> Sheet:
    row_number = 0
    for element in streamed(archive, part, "row", "col", "mergeCell"):
        if element.tag.endswith("}col"):
            if _is_set(element, "hidden"):
                sheet.hide_columns(whole_number(element.get("min")), whole_number(element.get("max")))
        elif element.tag.endswith("}mergeCell"):
            first, _, last = element.get("ref", "").partition(":")
            sheet.labels.append((*_place(first), *_place(last)))
        else:
            row_number = whole_number(element.get("r"), row_number + 1)
            if _is_set(element, "hidden"):
                sheet.hidden_rows.add(row_number)
            cells = _cells(element, sheet, shared)
            if cells:
                sheet.rows.setdefault(row_number, {}).update(cells)
    return sheet


def _cells(row: etree._Element, sheet: Sheet, shared: _Shared) -> dict[int, str]:
    """Return the texts of a row's cells by their columns, from 1."""
    cells: dict[int, str] = {}
    column = 0
    for cell in row:
        place = cell.get("r", "")
        column = _column(place.rstrip("0123456789")) or column + 1
        if len(cell) and (text := _text(cell, place, sheet, shared)):
            cells[column] = text
    return cells


def _text(cell: etree._Element, place: str, sheet: Sheet, shared: _Shared) -> str:
    """Return what a cell shows, or its formula where no value of it is stored."""
    kind, value, formula = cell.get("t", "n"), "", None
    for each in cell:
        if each.tag.endswith("}v"):
            value = each.text or ""
        elif each.tag.endswith("}f"):
            formula = each.text or ""
        elif each.tag.endswith("}is"):
            kind, value = "inlineStr", _words(each)
    if formula is not None and ((not value and kind != "str") or (shared.is_to_be_calculated and value == "0")):
        sheet.not_calculated.append(place)
        return f"={collapsed(formula)}" if formula else value
    style = cell.get("s")
    code = shared.codes[int(style)] if style and style.isdecimal() and int(style) < len(shared.codes) else GENERAL
    if kind == "n":
        return value if code == GENERAL and value.isdigit() else shown(value, code, since_1904=shared.since_1904)
    if kind == "b":
        return "FALSE" if value == "0" else "TRUE"
    if kind == "d":
        return value.replace("T", " ").removesuffix(" 00:00:00")
    if kind == "s":
        text = shared.strings[int(value)] if value.isdecimal() and int(value) < len(shared.strings) else ""
    else:
        text = value if kind == "inlineStr" else _unescaped(value)
    return shown_text(text, code) if text and "@" in code and code != "@" else text


def _drawn(drawing: etree._Element) -> list[str]:
    """Return the paragraphs of the shapes that lie on a sheet."""
    keep_choices(drawing)
    paragraphs = drawing.iterfind(".//{*}txBody/{*}p")
    return [escaped(text) for each in paragraphs if (text := one_line(part.text or "" for part in each.iter("{*}t")))]


def _is_set(element: etree._Element | None, name: str) -> bool:
    return element is not None and element.get(name) in ("1", "true")


def _words(item: etree._Element) -> str:
    """Return the words of a text, without how they are pronounced."""
    parts = (each.text or "" for each in item.iter("{*}t") if not each.getparent().tag.endswith("}rPh"))
    return _unescaped("".join(parts))


def _unescaped(text: str) -> str:
    if "_x" in text:
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return collapsed(text)


@lru_cache(maxsize=_MOST_COLUMNS)
def _column(letters: str) -> int:
    """Return the number of a column, from 1; 0 when it is none."""
    number = 0
    for letter in letters if len(letters) < 4 and letters.isalpha() and letters.isascii() else "":
        number = number * 26 + ord(letter.upper()) - ord("A") + 1
    return number if number <= _MOST_COLUMNS else 0


def _place(reference: str) -> tuple[int, int]:
    letters = reference.rstrip("0123456789")
    return whole_number(reference[len(letters) :]), _column(letters)
