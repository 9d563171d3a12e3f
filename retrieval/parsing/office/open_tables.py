"""Tables of OpenDocument files, of sheets as of texts."""

from __future__ import annotations

from lxml import etree

from retrieval.parsing.html_text import local_name, text_of
from retrieval.parsing.office.archives import whole_number
from retrieval.parsing.office.open_styles import DRAW, TABLE, TEXT
from retrieval.parsing.office.sheets import Sheet
from retrieval.parsing.parsed import collapsed

_SKIPPED_NAMES = """
    hidden math tracked-changes annotation sequence-decls forms note-citation ruby-text event-listeners
    table-of-content illustration-index table-index object-index alphabetical-index
"""
SKIPPED = frozenset(_SKIPPED_NAMES.split())
"""What is no text of a document, and `hidden`, as that is called here which is not shown."""
_SHAPE_NAMES = "custom-shape rect ellipse circle line polyline polygon path connector caption text-box"
SHAPES = frozenset(_SHAPE_NAMES.split())
"""What holds paragraphs of its own within a paragraph."""

AROUND = {**dict.fromkeys(("s", "tab", "line-break"), (" ", "")), "note": (" [", "]")}
_AROUND_IN_CELLS = {**AROUND, **dict.fromkeys(("p", "h", "list-item", "table-cell"), (" ", " "))}
_MAX_REPEATED = 50
_MOST_ROWS = 1_048_576
_HIDDEN = ("collapse", "filter")
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_VALUES = [f"{_OFFICE}{each}" for each in ("value", "date-value", "time-value", "boolean-value", "string-value")]


def read_table(element: etree._Element) -> tuple[Sheet, list[etree._Element]]:
    """Return a table as a sheet, and the shapes that lie on it."""
    sheet = Sheet(collapsed(element.get(f"{TABLE}name", "")))
    shapes: list[etree._Element] = []
    row, column, hidden = 1, 1, 0
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        name = local_name(each)
        if name in ("table-row-group", "table-column-group") and each.get(f"{TABLE}display") == "false":
            hidden += 1 if event == "start" else -1
        if event == "end" or each is element or name in ("table-header-rows", "table-rows", "table-header-columns"):
            continue
        is_hidden = hidden > 0 or each.get(f"{TABLE}visibility") in _HIDDEN
        if name == "table-column":
            count = max(whole_number(each.get(f"{TABLE}number-columns-repeated"), 1), 1)
            if is_hidden:
                sheet.hide_columns(column, column + count - 1)
            column += count
        elif name == "table-row":
            count = max(whole_number(each.get(f"{TABLE}number-rows-repeated"), 1), 1)
            cells = _cells(each, row, sheet, shapes)
            if cells:
                sheet.rows |= {number: dict(cells) for number in range(row, row + min(count, _MAX_REPEATED))}
            if is_hidden:
                sheet.hidden_rows.update(range(row, min(row + count, _MOST_ROWS + 1)))
            row += count
        elif name == "shapes":
            shapes.append(each)
        if name not in ("table-row-group", "table-column-group", "table-columns"):
            walk.skip_subtree()
    return sheet, shapes


def _cells(row: etree._Element, number: int, sheet: Sheet, shapes: list[etree._Element]) -> dict[int, str]:
    cells: dict[int, str] = {}
    column = 1
    for cell in row:
        name = local_name(cell)
        if name not in ("table-cell", "covered-table-cell"):
            continue
        count = max(whole_number(cell.get(f"{TABLE}number-columns-repeated"), 1), 1)
        if name == "table-cell" and (text := _text(cell, f"{_letters(column)}{number}", sheet)):
            cells |= dict.fromkeys(range(column, column + min(count, _MAX_REPEATED)), text)
            down, across = (
                max(whole_number(cell.get(f"{TABLE}number-{each}-spanned"), 1), 1) for each in ("rows", "columns")
            )
            if down > 1 or across > 1:
                sheet.labels.append((number, column, number + down - 1, column + across - 1))
        shapes += (each for each in cell if isinstance(each.tag, str) and each.tag.startswith(DRAW))
        column += count
    return cells


def _text(cell: etree._Element, place: str, sheet: Sheet) -> str:
    """Return what a cell shows, on one line; where it shows nothing, its value or its formula."""
    if len(cell) == 1 and not len(cell[0]) and cell[0].tag == f"{TEXT}p":
        return collapsed(cell[0].text or "")
    if len(cell):
        blocks = (each for each in cell if isinstance(each.tag, str) and not each.tag.startswith(DRAW))
        if text := collapsed(" ".join(text_of(each, SKIPPED, _AROUND_IN_CELLS) for each in blocks)):
            return text
    value = next((value for name in _VALUES if (value := cell.get(name))), "")
    if cell.get(f"{_OFFICE}value-type") is None and (formula := cell.get(f"{TABLE}formula")):
        sheet.not_calculated.append(place)
        return f"={collapsed(formula.partition('=')[2])}"
    return collapsed(value)


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
