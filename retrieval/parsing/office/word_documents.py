"""Word documents (DOCX): their paragraphs, headings, lists, tables, notes, and what stands above and below pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from lxml import etree

from retrieval.parsing.office.archives import Archive, attribute, core_properties, is_on, open_archive, related
from retrieval.parsing.office.word_numbering import Numbering
from retrieval.parsing.office.word_styles import Styles
from retrieval.parsing.office.word_text import NOTE, Block, PartReader
from retrieval.parsing.parsed import MarkdownText, Parsed, collapsed, escaped, heading, listed, losses
from retrieval.parsing.table_text import one_line, table

_MAIN = "word/document.xml"
_PARTS = frozenset(("styles", "numbering", "settings", "comments", "footnotes", "endnotes"))
_INDENT = "    "
_NOTE = re.compile(rf" ?{NOTE}(\d+){NOTE}")


def parse(content: bytes) -> Parsed:
    """Return a document's text. Pictures and what is hidden are left out, macros are never looked at."""
    archive = open_archive(content, "a Word document")
    main = next((part for kind, part in related(archive, "").values() if kind == "officeDocument"), _MAIN)
    root, relations = archive.xml(main), related(archive, main)
    parts = {kind: archive.xml(part) for kind, part in relations.values() if kind in _PARTS and archive.has(part)}
    styles = Styles(parts.get("styles"))
    reader = PartReader(archive, styles, Numbering(parts.get("numbering"), styles.list_of))
    body = root.find("{*}body")
    blocks = [] if body is None else reader.blocks(body, relations)
    _put_notes(blocks, dict(_notes(reader, archive, parts, relations)))
    document = MarkdownText()
    document.add(*_margin("header", root, parts.get("settings"), reader, archive, relations))
    document.add(*markdown_of(blocks))
    document.add(*_margin("footer", root, parts.get("settings"), reader, archive, relations))
    title, metadata = core_properties(archive)
    warnings = losses(
        ("Hidden passages are left out: {}", reader.losses.hidden),
        ("Comments are left out: {}", len(parts.get("comments", ()))),
        ("Charts are left out: {}", reader.losses.charts),
        ("Embedded objects are left out: {}", listed([*dict.fromkeys(reader.losses.objects)])),
    )
    return document.parsed(title or _title(blocks), metadata, warnings=warnings)


def _margin(
    kind: str,
    root: etree._Element,
    settings: etree._Element | None,
    reader: PartReader,
    archive: Archive,
    relations: Mapping[str, tuple[str, str]],
) -> list[str]:
    """Return the lines of all headers or footers that pages show, each text once."""
    has_even = settings is not None and is_on(settings.find("{*}evenAndOddHeaders"))
    parts: dict[str, None] = {}
    for section in root.iterfind("{*}body//{*}sectPr"):
        shown = {"first": is_on(section.find("{*}titlePg")), "default": True, "even": has_even}
        named = {attribute(each, "type"): attribute(each, "id") for each in section.iterfind(f"{{*}}{kind}Reference")}
        for place in filter(shown.get, shown):
            _, part = relations.get(named.get(place) or "", ("", ""))
            if archive.has(part):
                parts[part] = None
    lines = (each.line for part in parts for each in reader.blocks(archive.xml(part), related(archive, part), True))
    return [escaped(line) for line in dict.fromkeys(lines) if line]


def markdown_of(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield blocks as Markdown; the items of a list stand on lines next to each other."""
    items: list[str] = []
    levels: list[int] = []  # of the items above, ascending
    for block in blocks:
        if block.level is not None:
            while levels and levels[-1] >= block.level:
                levels.pop()
            first, *rest = escaped(block.text).split("\n")
            items.append(f"{_INDENT * len(levels)}{block.label} {first}")
            items += [f"{_INDENT * (len(levels) + 1)}{line}" for line in rest]
            levels.append(block.level)
            continue
        if items:
            yield "\n".join(items)
            items, levels = [], []
        if block.rows is not None:
            yield table(block.rows)
        else:
            yield heading(block.heading, block.line) if block.heading else escaped(block.text)
    yield "\n".join(items)


def _notes(
    reader: PartReader,
    archive: Archive,
    parts: Mapping[str, etree._Element],
    relations: Mapping[str, tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """Yield the numbers and the texts of the notes that are referred to."""
    within = {kind: related(archive, part) for kind, part in relations.values() if kind in ("footnotes", "endnotes")}
    elements = {
        (kind, attribute(each, "id")): each for kind in ("footnote", "endnote") for each in parts.get(f"{kind}s", ())
    }
    for (kind, identifier), number in list(reader.notes.items()):
        if (element := elements.get((kind, identifier))) is not None:
            text = one_line(block.line for block in reader.blocks(element, within.get(f"{kind}s", {})))
            yield str(number), text


def _put_notes(blocks: Iterable[Block], notes: dict[str, str]) -> None:
    """Put each note in brackets where the text first refers to it, as in OpenDocument: so it stays in its section."""

    def noted(text: str) -> str:
        return _NOTE.sub(lambda found: f" [{notes.pop(found[1], found[1])}]", text) if NOTE in text else text

    for block in blocks:
        block.text = noted(block.text).lstrip()
        block.rows = block.rows and [list(map(noted, row)) for row in block.rows]


def _title(blocks: list[Block]) -> str | None:
    """Return the paragraph that is styled as the title, else the heading that a document begins with, if it has no
    number of a chapter."""
    first = next((block for block in blocks if block.is_title), blocks[0] if blocks else Block())
    return collapsed(first.text) if first.is_title or (first.heading == 1 and not first.label) else None
