"""PowerPoint presentations (PPTX): each slide a section with its notes, and a mark."""

from __future__ import annotations

from lxml import etree

from retrieval.parsing.office.archives import Archive, core_properties, open_archive, related
from retrieval.parsing.parsed import MarkdownText, Parsed, collapsed, escaped, heading
from retrieval.parsing.table_text import table

_LABEL = "a PowerPoint presentation"
_MAIN = "ppt/presentation.xml"
_SHAPES = ("{*}sp", "{*}graphicFrame")  # those of groups included
_NO_TEXT = frozenset(("dt", "ftr", "sldNum", "hdr", "sldImg"))  # placeholders that repeat on every slide


def parse(content: bytes) -> Parsed:
    """Return the slides in their order, hidden ones included. Text of the layout behind them is left out."""
    archive = open_archive(content, _LABEL)
    relations = related(archive, _MAIN)
    document = MarkdownText()
    slides = [relations[name][1] for name in _slide_ids(archive.xml(_MAIN)) if name in relations]
    for number, part in enumerate(slides, start=1):
        _add_slide(document, archive, part, number)
    title, metadata = core_properties(archive)
    title = None if title == "PowerPoint Presentation" else title
    return document.parsed(title, metadata, pages=len(slides))


def _slide_ids(presentation: etree._Element) -> list[str]:
    return [
        value
        for slide in presentation.iterfind("{*}sldIdLst/{*}sldId")
        for name, value in slide.items()
        if name.endswith("}id")  # that of the relation, in the namespace of one of the two standards
    ]


def _add_slide(document: MarkdownText, archive: Archive, part: str, number: int) -> None:
    slide = archive.xml(part)
    title, blocks = None, []
    for shape in slide.iter(*_SHAPES):
        kind = _placeholder(shape)
        if kind in ("title", "ctrTitle") and title is None:
            title = collapsed(" ".join(_paragraphs(shape)))
        elif kind not in _NO_TEXT:
            blocks += _blocks(shape)
    notes = [target for kind, target in related(archive, part).values() if kind == "notesSlide" and archive.has(target)]
    spoken = [
        block
        for target in notes
        for shape in archive.xml(target).iter(*_SHAPES)
        if _placeholder(shape) == "body"
        for block in _blocks(shape)
    ]
    if title or blocks or spoken:
        document.mark(slide=number)
        document.add(heading(1, title or f"Slide {number}"), *blocks)
        if spoken:
            document.add(heading(2, "Notes"), *spoken)


def _placeholder(shape: etree._Element) -> str | None:
    found = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return None if found is None else found.get("type", "body")


def _blocks(shape: etree._Element) -> list[str]:
    tables = list(shape.iter("{*}tbl"))
    if tables:
        return [
            table([[" ".join(_paragraphs(cell)) for cell in row.iterfind("{*}tc")] for row in found.iterfind("{*}tr")])
            for found in tables
        ]
    return [escaped(text) for text in _paragraphs(shape)]


def _paragraphs(element: etree._Element) -> list[str]:
    found = []
    for paragraph in element.iter("{*}p"):
        parts = [
            each.text or "" if etree.QName(each).localname == "t" else " " for each in paragraph.iter("{*}t", "{*}br")
        ]
        if text := collapsed("".join(parts)):
            found.append(text)
    return found
