"""OpenDocument texts, presentations and spreadsheets (ODT, ODP, ODS)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from lxml import etree

from retrieval.parsing.html_text import local_name, mark_raised, text_of
from retrieval.parsing.office.archives import Archive, attribute, described, open_archive, whole_number
from retrieval.parsing.office.drawings import picture_words
from retrieval.parsing.office.open_styles import DRAW, FORM, PRESENTATION, STYLE, TABLE, TEXT, OpenNumbering, OpenStyles
from retrieval.parsing.office.open_tables import AROUND, SHAPES, SKIPPED, read_table
from retrieval.parsing.office.sheets import Spreadsheet
from retrieval.parsing.office.word_documents import markdown_of
from retrieval.parsing.office.word_fields import PAGE, without_page_numbers
from retrieval.parsing.office.word_text import Block
from retrieval.parsing.parsed import (
    ENCRYPTED,
    MarkdownText,
    Parsed,
    UnreadableError,
    collapsed,
    escaped,
    heading,
    losses,
    ranges,
    sensible_title,
)
from retrieval.parsing.table_text import TICKED, UNTICKED

_SKIPPED_IN_TEXT = SKIPPED | SHAPES
_MAX_LEVEL = 8
_PAGE_SIGN = "\ue000"  # of private use, and no white space
_RAISED = re.compile(r"super|[1-9]")
_HEADING_STYLE = re.compile(r"Heading_20_(\d)")
_NO_TEXT = frozenset(("date-time", "footer", "header", "page-number"))  # frames that repeat on every slide


@dataclass(slots=True)
class _Document:
    """An opened document: its content, in which what is hidden is marked, and what of it is not read."""

    archive: Archive
    content: etree._Element
    styles: OpenStyles
    masters: etree._Element | None
    hidden: int = 0
    comments: int = 0
    objects: int = 0

    def parsed(self, text: MarkdownText, title: str | None = None, pages: int | None = None, *more: str) -> Parsed:
        found, metadata = self.described()
        return text.parsed(
            sensible_title(found or "") or title, metadata, pages=pages, warnings=[*more, *self.warnings]
        )

    def described(self) -> tuple[str | None, dict[str, Any]]:
        elements = self.archive.xml("meta.xml").iter("{*}*") if self.archive.has("meta.xml") else ()
        return described(elements, "keyword")

    @property
    def warnings(self) -> list[str]:
        return losses(
            ("Hidden passages are left out: {}", self.hidden),
            ("Comments are left out: {}", self.comments),
            ("Charts and other embedded objects are left out: {}", self.objects),
        )


def parse_odt(content: bytes) -> Parsed:
    """Return the text of a document, with what stands above and below its pages as its first and last lines; its own
    table of contents and what was deleted under review are left out."""
    document = _opened(content, "an OpenDocument text")
    text, blocks = MarkdownText(), []
    for body in document.content.iterfind("{*}body/{*}text"):
        blocks += _blocks(body, document.styles)
    text.add(*_margin(document, "header"), *markdown_of(blocks), *_margin(document, "footer"))
    first = next((block.text for block in blocks if block.is_title), None)
    return document.parsed(text, first)


def parse_odp(content: bytes) -> Parsed:
    """Return the slides of a presentation in their order, with their notes."""
    document = _opened(content, "an OpenDocument presentation")
    text, hidden, first_title, number = MarkdownText(), [], None, 0
    for number, page in enumerate(document.content.iter(f"{DRAW}page"), start=1):
        style = page.get(f"{DRAW}style-name")
        if document.styles.of("drawing-page", style, f"{PRESENTATION}visibility") == "hidden":
            hidden.append(number)
            continue
        title, blocks, notes = _slide(page, document.styles)
        first_title = title if number == 1 else first_title
        if title or blocks or notes:
            text.mark(slide=number)
            text.add(heading(1, title or f"Slide {number}"), *markdown_of(blocks))
        if notes:
            text.add(heading(2, "Notes"), *markdown_of(notes))
    said = losses(("Hidden slides are left out: {}", ranges(hidden)))
    return document.parsed(text, first_title, number, *said)


def parse_ods(content: bytes) -> Parsed:
    """Return the sheets of a spreadsheet as they are shown, each a section with its tables, and a mark."""
    document = _opened(content, "an OpenDocument spreadsheet")
    spreadsheet = Spreadsheet()
    for element in document.content.iterfind(f"{{*}}body/{{*}}spreadsheet/{TABLE}table"):
        if document.styles.of("table", element.get(f"{TABLE}style-name"), f"{TABLE}display") == "false":
            spreadsheet.hidden.append(collapsed(element.get(f"{TABLE}name", "")))
            continue
        sheet, shapes = read_table(element)
        spreadsheet.add(sheet, *(each for shape in shapes for each in markdown_of(_blocks(shape, document.styles))))
    parsed = spreadsheet.parsed(*document.described())
    parsed.warnings += document.warnings
    return parsed


def _opened(content: bytes, label: str) -> _Document:
    archive = open_archive(content, label)
    if archive.has("META-INF/manifest.xml") and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise UnreadableError("is encrypted", ENCRYPTED)
    root = archive.xml("content.xml")
    masters = archive.xml("styles.xml") if archive.has("styles.xml") else None
    document = _Document(archive, root, OpenStyles(root, *([] if masters is None else [masters])), masters)
    for each in (root, *([] if masters is None else [masters])):
        _prepare(document, each)
    return document


def _prepare(document: _Document, root: etree._Element) -> None:
    """Rename what is hidden, and write into a document what its parts of forms and its formulas show."""
    controls: dict[str | None, str] = {}
    formulas: dict[str, str] = {}
    for each in root.iter("{*}*"):
        name, family = local_name(each), each.tag.partition("}")[0] + "}"
        if family == FORM and name in ("checkbox", "radio"):
            is_ticked = "checked" in (each.get(f"{FORM}current-state"), each.get(f"{FORM}state"))
            words = f"{TICKED if is_ticked or each.get(f'{FORM}current-selected') == 'true' else UNTICKED} "
            controls[attribute(each, "id")] = words + (each.get(f"{FORM}label") or "")
        elif family == FORM and (value := each.get(f"{FORM}current-value") or each.get(f"{FORM}value")):
            controls[attribute(each, "id")] = value
        elif family == TEXT and _is_hidden(each, name, document.styles):
            document.hidden += any(True for text in each.itertext() if text.strip())
            each.tag = f"{TEXT}hidden"
        elif family == TEXT and name == "span":
            position = document.styles.of("text", each.get(f"{TEXT}style-name"), f"{STYLE}text-position")
            if position and _RAISED.match(position):
                mark_raised(each)
        elif family == TEXT and name in ("page-number", "page-count"):
            each.text = _PAGE_SIGN
        elif name == "annotation" and family != "{http://www.w3.org/1998/Math/MathML}":
            document.comments += 1
        elif family == DRAW and name == "control":
            each.text = controls.get(each.get(f"{DRAW}control"), "")
        elif family == DRAW and name in ("object", "object-ole"):
            each.text = _formula(document.archive, each, formulas)
            document.objects += not each.text


def _is_hidden(element: etree._Element, name: str | None, styles: OpenStyles) -> bool:
    if name in ("p", "h", "span"):
        family = "text" if name == "span" else "paragraph"
        return styles.of(family, element.get(f"{TEXT}style-name"), f"{TEXT}display") == "none"
    if name == "section":
        shown = element.get(f"{TEXT}display", "true")
        return shown == "none" or (shown == "condition" and element.get(f"{TEXT}is-hidden") == "true")
    return name == "hidden-text" and element.get(f"{TEXT}is-hidden") == "true"


def _formula(archive: Archive, element: etree._Element, found: dict[str, str]) -> str:
    """Return the words of a formula, which may be a document of its own; "" for other objects. `found` are by part."""
    math = next(element.iter("{*}math"), None)
    if math is not None:
        return _words_of(math)
    part = f"{normpath(attribute(element, 'href') or '')}/content.xml"
    if part not in found:
        found[part] = _words_of(archive.xml(part)) if archive.has(part) else ""
    return found[part]


def _words_of(math: etree._Element) -> str:
    source = next(math.iter("{*}annotation"), math)
    return collapsed(" ".join(source.itertext())) if local_name(math) == "math" else ""


def _blocks(root: etree._Element, styles: OpenStyles) -> list[Block]:
    """Return the blocks below an element: headings, paragraphs, items of lists and tables. What stands in a shape
    follows the paragraph that it is bound to."""
    blocks: list[Block] = []
    numbering = OpenNumbering(styles)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        name = local_name(element)
        if event == "end":
            if element.tag == f"{TEXT}list":
                numbering.end()
        elif element.tag == f"{TEXT}list":
            numbering.begin(element)
        elif element.tag == f"{TEXT}list-item":
            numbering.item(element)
        elif element.tag in (f"{TEXT}p", f"{TEXT}h"):
            blocks += _paragraph(element, numbering, styles)
        elif element.tag == f"{TABLE}table":
            rows, _, _ = read_table(element)[0].shown()
            blocks.append(Block(rows=[row for row in rows if row]))
            walk.skip_subtree()
        elif name == "desc" and local_name(element.getparent()) == "frame":
            blocks += [Block(words)] if (words := picture_words(element.text or "")) else []
        elif name in SKIPPED or name == "note":
            walk.skip_subtree()
    return blocks


def _paragraph(element: etree._Element, numbering: OpenNumbering, styles: OpenStyles) -> Iterator[Block]:
    text = without_page_numbers(text_of(element, _SKIPPED_IN_TEXT, AROUND).replace(_PAGE_SIGN, PAGE))
    label, numbering.label = numbering.label, None
    if element.tag == f"{TEXT}h":
        level = max(whole_number(element.get(f"{TEXT}outline-level"), 1), 1)
        number = numbering.heading(element, level) if label is None else label.strip("-")
        yield Block(text, level, label=number)
    elif text:
        style = element.get(f"{TEXT}style-name")
        names = (style or "", styles.of("paragraph", style, f"{STYLE}parent-style-name") or "")
        as_heading = next(filter(None, map(_HEADING_STYLE.fullmatch, names)), None)
        is_title = "Title" in names and not numbering.depth
        level = min(numbering.depth, _MAX_LEVEL) - 1
        if label is None:
            yield Block(text, int(as_heading[1]) if as_heading else int(is_title), is_title)
        else:
            yield Block(text, label=label, level=level)


def _slide(page: etree._Element, styles: OpenStyles) -> tuple[str | None, list[Block], list[Block]]:
    """Return the title, the blocks and the notes of a slide."""
    title, blocks, notes = None, [], []
    for shape in page:
        kind = shape.get(f"{PRESENTATION}class")
        if shape.get(f"{PRESENTATION}placeholder") == "true" or kind in _NO_TEXT:
            continue
        found = _blocks(shape, styles)
        if shape.tag == f"{PRESENTATION}notes":
            notes += found
        elif kind == "title" and title is None:
            title = collapsed(" ".join(block.line for block in found)) or None
        else:
            blocks += found
    if title is None and len(blocks) > 1 and blocks[0].rows is None and len(blocks[0].text) <= 200:
        title = blocks.pop(0).text
    return title, blocks, notes


def _margin(document: _Document, kind: str) -> list[str]:
    """Return the lines of all headers or footers of pages, each once."""
    if document.masters is None:
        return []
    lines = (
        block.line
        for page in document.masters.iterfind("{*}master-styles/{*}master-page")
        for each in page
        if (local_name(each) or "").startswith(kind) and attribute(each, "display") != "false"
        for block in _blocks(each, document.styles)
    )
    return [escaped(line) for line in dict.fromkeys(lines) if line]
