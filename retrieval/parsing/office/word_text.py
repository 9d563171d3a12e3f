"""The text of a part of a Word document: its blocks, whatever they stand in.

The tree is walked by its events, so depth costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.office.archives import Archive, attribute, is_on, keep_choices, whole_number
from retrieval.parsing.office.drawings import alternative_text, graphic
from retrieval.parsing.office.equations import formula
from retrieval.parsing.office.symbols import shown, sign
from retrieval.parsing.office.word_fields import PAGE, Fields, without_page_numbers
from retrieval.parsing.office.word_numbering import BULLET, Numbering
from retrieval.parsing.office.word_styles import BODY_LEVEL, Style, Styles, paragraph_properties, run_properties
from retrieval.parsing.parsed import collapsed, is_raised_behind
from retrieval.parsing.table_text import TICKED, UNTICKED, fill_spans, one_line

NOTE = "\x06"
"""Stands before and after the number of a note, where the text refers to it: XML cannot hold it."""
_LINE = "\v"  # the end of a line within a paragraph, which it cannot hold either
_DELETED = ("del", "moveFrom")
_LEFT_OUT = frozenset((*_DELETED, "rt", "pPr", "rPr", "tblPr", "sectPr", "instrText", "numbering"))
_CHARACTERS = {"br": _LINE, "cr": _LINE, "tab": "\t", "ptab": "\t", "noBreakHyphen": "-"}
_CONTENTS = re.compile(r"toc [1-9]")  # the styles of a table of contents
_MAX_SPAN = 50  # columns of a cell
_LONGEST_HEADING = 300  # characters: the clauses of contracts are often styled as headings


@dataclass(slots=True)
class Block:
    """A paragraph, which may be a heading, from 1, or an item of a list, with its label and level; or a table."""

    text: str = ""
    heading: int = 0
    is_title: bool = False
    label: str = ""
    level: int | None = None
    rows: list[list[str]] | None = None

    @property
    def line(self) -> str:
        """The text on one line, as in a cell."""
        if self.rows is not None:
            return one_line(cell for row in self.rows for cell in row)
        return collapsed(self.text if self.label == BULLET else f"{self.label} {self.text}")


@dataclass(slots=True)
class Losses:
    """What of a document is not read: numbers and names."""

    hidden: int = 0
    charts: int = 0
    objects: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Paragraph:
    style: Style
    parts: list[str]
    after: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """What holds paragraphs: the part, a cell or a text box; with the run that is being read."""

    blocks: list[Block] = field(default_factory=list)
    paragraph: _Paragraph | None = None
    carried: list[str] = field(default_factory=list)  # of a paragraph that goes on with the next
    is_hidden: bool = False
    is_raised: bool = False
    font: str = ""


@dataclass(slots=True)
class _Table:
    rows: list[list[list[Block]]] = field(default_factory=list)
    cells: int = 0  # of the last row
    is_layout: bool = True  # while no row has two cells: it only places its contents, as one row of columns does
    starts: dict[int, int] = field(default_factory=dict)  # of merged cells: column to row
    spans: dict[tuple[int, int], int] = field(default_factory=dict)  # (row, column) to rows


class PartReader:
    """Reads parts of one document; the numbers of lists and notes go on from part to part."""

    def __init__(self, archive: Archive, styles: Styles, numbering: Numbering) -> None:
        self.losses = Losses()
        self.notes: dict[tuple[str, str], int] = {}
        """The notes that are referred to, (kind, id), and their numbers."""
        self._archive, self._styles, self._numbering = archive, styles, numbering
        self._starts: dict[str, Callable[[etree._Element], bool | None]] = {
            "p": self._begin_paragraph,
            "r": self._begin_run,
            "t": self._add_text,
            "sym": self._add_sign,
            "tbl": lambda _: self._tables.append(_Table()),
            "tr": self._begin_row,
            "tc": self._begin_cell,
            "txbxContent": lambda _: self._frames.append(_Frame()),
            "oMathPara": self._add_equation,
            "oMath": self._add_equation,
            "sdt": self._begin_control,
            "fldChar": self._change_field,
            "fldSimple": self._add_simple_field,
            "footnoteReference": self._refer,
            "endnoteReference": self._refer,
            "relIds": self._add_graphic,
            "chart": self._add_graphic,
            "docPr": lambda each: self._put(f" {alternative_text(each)} "),
            "textpath": lambda each: self._put(f" {attribute(each, 'string') or ''} "),
            "OLEObject": lambda each: self.losses.objects.append(attribute(each, "ProgID") or "object"),
            "control": lambda _: self.losses.objects.append("ActiveX control"),
            "altChunk": lambda _: self.losses.objects.append("another document"),
        }
        self._ends: dict[str, Callable[[etree._Element], None]] = {
            "p": self._end_paragraph,
            "tc": self._end_cell,
            "tbl": self._end_table,
            "txbxContent": self._end_box,
            "sdt": self._end_control,
        }
        names = {*self._starts, *self._ends, *_LEFT_OUT, *_CHARACTERS}
        self._tags = tuple(f"{{*}}{name}" for name in names)

    def blocks(
        self, root: etree._Element, relations: Mapping[str, tuple[str, str]], in_margin: bool = False
    ) -> list[Block]:
        """Return the blocks below an element; the relations are those of its part. The numbers of pages are left out
        in a header or footer (`in_margin`)."""
        keep_choices(root)
        self._relations = relations
        self._frames, self._tables, self._fields = [_Frame()], list[_Table](), Fields(in_margin)
        self._tick, self._placeholders, self._was_hidden = "", 0, False
        walk = etree.iterwalk(root, events=("start", "end"), tag=self._tags)
        for event, each in walk:
            name = etree.QName(each).localname
            if event == "end":
                if name in self._ends:
                    self._ends[name](each)
            elif name in _CHARACTERS:
                self._put(_CHARACTERS[name])
            elif name in _LEFT_OUT:
                if name == "instrText":
                    self._fields.instruct(each.text or "")
                walk.skip_subtree()
            elif self._starts[name](each):
                walk.skip_subtree()
        return self._close_frame()

    def _close_frame(self) -> list[Block]:
        frame = self._frames.pop()
        if text := _text("".join(frame.carried)):
            frame.blocks.append(Block(text))
        return frame.blocks

    def _put(self, text: str) -> None:
        frame = self._frames[-1]
        if frame.paragraph is not None and not self._fields.is_muted:
            frame.paragraph.parts.append(text)

    def _begin_paragraph(self, element: etree._Element) -> None:
        properties = element.find("{*}pPr")
        name = attribute(None if properties is None else properties.find("{*}pStyle"), "val") or self._styles.default
        frame = self._frames[-1]
        frame.paragraph = _Paragraph(self._styles.style(name), frame.carried)
        frame.carried = []

    def _end_paragraph(self, element: etree._Element) -> None:
        frame = self._frames[-1]
        paragraph, frame.paragraph = frame.paragraph, None
        self._was_hidden = False
        if paragraph is None:
            return
        self._fields.end_paragraph()
        properties, style = element.find("{*}pPr"), paragraph.style
        if properties is not None and any(properties.find(f"{{*}}rPr/{{*}}{each}") is not None for each in _DELETED):
            frame.carried = paragraph.parts  # the mark between two paragraphs was deleted
            frame.blocks += paragraph.after
            return
        level, number, item_level = paragraph_properties(properties)
        level = style.level if level is None else level
        if number is None and style.number is not None:
            number, by = style.number, style.listed_by
            item_level = style.item_level if item_level is None else item_level
            item_level = self._numbering.level_of(number, by) if item_level is None else item_level
        label = self._numbering.next_label(number, item_level or 0) if number else ""
        text = _text("".join(paragraph.parts))
        if text and not _CONTENTS.fullmatch(style.name):
            is_title = style.name == "title"
            is_heading = level < BODY_LEVEL and len(text) <= _LONGEST_HEADING
            block = Block(text, level + 1 if is_heading else int(is_title), is_title, label)
            if label and not block.heading:
                block.level = item_level or 0
            frame.blocks.append(block)
        frame.blocks += paragraph.after

    def _begin_run(self, element: etree._Element) -> None:
        frame, properties = self._frames[-1], element.find("{*}rPr")
        hidden, font = run_properties(properties)
        style = self._styles.style(attribute(None if properties is None else properties.find("{*}rStyle"), "val"))
        if hidden is None:
            hidden = style.is_hidden or (frame.paragraph is not None and frame.paragraph.style.is_hidden)
        frame.font = font or style.font or (frame.paragraph.style.font if frame.paragraph is not None else "")
        frame.is_hidden = hidden or (self._placeholders > 0 and style.name == "placeholder text")
        self._counts_hidden = hidden
        position = None if properties is None else properties.find("{*}vertAlign")
        frame.is_raised = attribute(position, "val") == "superscript"

    def _add_text(self, element: etree._Element) -> None:
        frame, text = self._frames[-1], element.text or ""
        above = frame.paragraph.parts if frame.paragraph is not None else []
        if frame.is_raised and above and is_raised_behind(above[-1], text):
            text = f"^{text}"
        self._show(shown(text, frame.font))

    def _add_sign(self, element: etree._Element) -> None:
        self._show(sign(attribute(element, "char") or "", attribute(element, "font") or ""))

    def _show(self, text: str) -> None:
        """Put what a run shows. The first sign of a control that is a box is the box."""
        if self._frames[-1].is_hidden:
            if text.strip() and self._counts_hidden:
                self.losses.hidden += not self._was_hidden
                self._was_hidden = True
            return
        self._was_hidden = False
        self._put(self._tick or text)
        self._tick = ""

    def _add_equation(self, element: etree._Element) -> bool:
        around = _LINE if etree.QName(element).localname == "oMathPara" else ""
        self._put(around + formula(element) + around)
        return True

    def _begin_row(self, element: etree._Element) -> bool:
        properties = element.find("{*}trPr")
        if not self._tables or (properties is not None and properties.find("{*}del") is not None):
            return True
        before = None if properties is None else properties.find("{*}gridBefore")
        self._tables[-1].cells = 0
        self._tables[-1].rows.append([[] for _ in range(_span(before))] if before is not None else [])
        return False

    def _begin_cell(self, element: etree._Element) -> bool:
        self._frames.append(_Frame())
        return False

    def _end_cell(self, element: etree._Element) -> None:
        blocks = self._close_frame()
        if not self._tables or not self._tables[-1].rows:
            self._frames[-1].blocks += blocks
            return
        table, properties = self._tables[-1], element.find("{*}tcPr")
        row, at = len(table.rows) - 1, len(table.rows[-1])
        table.cells += 1
        table.is_layout = table.is_layout and table.cells < 2
        merge = None if properties is None else properties.find("{*}vMerge")
        if merge is None or attribute(merge, "val") == "restart":
            table.starts.pop(at, None)
            if merge is not None:
                table.starts[at] = row
        elif at in table.starts:
            table.spans[table.starts[at], at] = row - table.starts[at] + 1
            blocks = []
        wide = None if properties is None else properties.find("{*}gridSpan")
        table.rows[-1] += [blocks, *([] for _ in range(_span(wide) - 1))]

    def _end_table(self, element: etree._Element) -> None:
        table, frame = self._tables.pop(), self._frames[-1]
        columns = len(table.rows) == 1 and any(len(cell) > 1 for cell in table.rows[0])
        if table.is_layout or columns:
            frame.blocks += [block for row in table.rows for cell in row for block in cell]
            return
        lines = [[one_line(block.line for block in cell) for cell in row] for row in table.rows]
        fill_spans(lines, ((row, column, count) for (row, column), count in table.spans.items()))
        frame.blocks.append(Block(rows=[row for row in lines if any(row)]))

    def _end_box(self, element: etree._Element) -> None:
        blocks, outer = self._close_frame(), self._frames[-1]
        (outer.blocks if outer.paragraph is None else outer.paragraph.after).extend(blocks)

    def _begin_control(self, element: etree._Element) -> bool:
        if attribute(element.find("{*}sdtPr/{*}docPartObj/{*}docPartGallery"), "val") == "Table of Contents":
            return True
        if (box := element.find("{*}sdtPr/{*}checkbox")) is not None:
            checked = box.find("{*}checked")
            self._tick = TICKED if is_on(checked) else UNTICKED
        self._placeholders += is_on(element.find("{*}sdtPr/{*}showingPlcHdr"))
        return False

    def _end_control(self, element: etree._Element) -> None:
        if element.find("{*}sdtPr/{*}checkbox") is not None and self._tick:
            self._put(self._tick)
            self._tick = ""
        self._placeholders -= is_on(element.find("{*}sdtPr/{*}showingPlcHdr"))

    def _change_field(self, element: etree._Element) -> None:
        text, frame = self._fields.change(element), self._frames[-1]
        if frame.paragraph is not None:
            frame.paragraph.parts.append(text)

    def _add_simple_field(self, element: etree._Element) -> bool:
        is_page = self._fields.is_page_number(attribute(element, "instr") or "")
        self._put(PAGE if is_page else "")
        return is_page

    def _refer(self, element: etree._Element) -> None:
        note = etree.QName(element).localname.removesuffix("Reference"), attribute(element, "id") or ""
        self._put(f"{NOTE}{self.notes.setdefault(note, len(self.notes) + 1)}{NOTE}")

    def _add_graphic(self, element: etree._Element) -> None:
        frame, found = self._frames[-1], graphic(element, self._archive, self._relations)
        if found is None:
            self.losses.charts += 1
        blocks = frame.blocks if frame.paragraph is None else frame.paragraph.after
        blocks += [Block(each) if isinstance(each, str) else Block(rows=each) for each in found or ()]


def _text(text: str) -> str:
    """Return the lines of a paragraph. What stands between tabs beside the number of a page is taken for itself."""
    if PAGE in text:
        text = " ".join(map(without_page_numbers, re.split(r"(\v|\t)", text)))
    return "\n".join(line for line in map(collapsed, text.split(_LINE)) if line)


def _span(element: etree._Element | None) -> int:
    return min(max(whole_number(attribute(element, "val"), 1), 1), _MAX_SPAN)
