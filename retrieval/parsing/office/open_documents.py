"""OpenDocument texts, presentations and spreadsheets (ODT, ODP, ODS)."""

from __future__ import annotations

from lxml import etree

from retrieval.parsing.html_text import local_name, text_of
from retrieval.parsing.office.archives import Archive, described, open_archive
from retrieval.parsing.parsed import (
    ENCRYPTED,
    MarkdownText,
    Parsed,
    UnreadableError,
    collapsed,
    escaped,
    heading,
)
from retrieval.parsing.table_text import table

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_SKIPPED_NAMES = """
    tracked-changes annotation sequence-decls table-of-content alphabetical-index forms note-citation
"""
_SKIPPED = frozenset(_SKIPPED_NAMES.split())
_AROUND = {**dict.fromkeys(("s", "tab", "line-break"), (" ", "")), "note": (" [", "]")}
_MAX_REPEATED = 50
_MAX_LEVEL = 8


def parse_odt(content: bytes) -> Parsed:
    """Return the text of a document; its own table of contents and what was deleted under review are left out."""
    archive = _opened(content, "an OpenDocument text")
    document = MarkdownText()
    for body in archive.xml("content.xml").iterfind("{*}body/{*}text"):
        _add(document, body)
    return _parsed(document, archive)


def parse_odp(content: bytes) -> Parsed:
    """Return the slides of a presentation in their order, with their notes."""
    archive = _opened(content, "an OpenDocument presentation")
    document, number = MarkdownText(), 0
    for number, page in enumerate(archive.xml("content.xml").iter(f"{_DRAW}page"), start=1):
        slide = MarkdownText()
        _add(slide, page)
        if slide.text:
            document.mark(slide=number)
            title, _, rest = slide.text.strip().partition("\n\n")
            if "\n" in title or len(title) > 200:
                title, rest = f"Slide {number}", slide.text
            document.add(heading(1, title.lstrip("#- ")), rest)
    return _parsed(document, archive, number)


def parse_ods(content: bytes) -> Parsed:
    """Return the sheets of a spreadsheet as they are shown, each a section with a table, and a mark."""
    archive = _opened(content, "an OpenDocument spreadsheet")
    document = MarkdownText()
    for sheet in archive.xml("content.xml").iterfind(f"{{*}}body/{{*}}spreadsheet/{_TABLE}table"):
        rows, name = _rows(sheet), collapsed(sheet.get(f"{_TABLE}name", ""))
        if rows:
            document.mark(sheet=name)
            document.add(heading(1, name), table(rows))
    return _parsed(document, archive)


def _opened(content: bytes, label: str) -> Archive:
    archive = open_archive(content, label)
    if archive.has("META-INF/manifest.xml") and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise UnreadableError("is encrypted", ENCRYPTED)
    return archive


def _parsed(document: MarkdownText, archive: Archive, slides: int | None = None) -> Parsed:
    elements = archive.xml("meta.xml").iter("{*}*") if archive.has("meta.xml") else ()
    title, metadata = described(elements, "keyword")
    return document.parsed(title, metadata, pages=slides)


def _add(document: MarkdownText, root: etree._Element) -> None:
    """Add the blocks below an element: headings, paragraphs, items of lists and tables."""
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        if element.tag == f"{_TEXT}h":
            level = element.get(f"{_TEXT}outline-level", "1")
            document.add(heading(int(level) if level.isdigit() and len(level) < 3 else 1, _words(element)))
        elif element.tag == f"{_TEXT}p":
            text = _words(element)
            depth = min(sum(1 for _ in element.iterancestors(f"{_TEXT}list")), _MAX_LEVEL)
            document.add(f"{'  ' * (depth - 1)}- {text}" if depth and text else escaped(text))
        elif element.tag == f"{_TABLE}table":
            document.add(table(_rows(element)))
        elif local_name(element) not in _SKIPPED:
            continue
        walk.skip_subtree()


def _rows(element: etree._Element) -> list[list[str]]:
    rows = []
    for row in element.iter(f"{_TABLE}table-row"):
        cells: list[str] = []
        for cell in row:
            if local_name(cell) in ("table-cell", "covered-table-cell"):
                repeated = cell.get(f"{_TABLE}number-columns-repeated", "1")
                times = min(int(repeated), _MAX_REPEATED) if repeated.isdigit() and len(repeated) < 9 else 1
                cells += [" ".join(_words(each) for each in cell.iter(f"{_TEXT}p", f"{_TEXT}h"))] * times
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            rows.append(cells)
    return rows


def _words(element: etree._Element) -> str:
    """Return the words of a paragraph, its footnotes in brackets; spaces and line breaks are elements here."""
    return text_of(element, _SKIPPED, _AROUND)
