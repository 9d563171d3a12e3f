"""PowerPoint presentations (PPTX): each slide a section with its notes, and a mark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.office.archives import (
    Archive,
    attribute,
    core_properties,
    is_on,
    keep_choices,
    open_archive,
    related,
    whole_number,
)
from retrieval.parsing.office.drawings import alternative_text, graphic, paragraph_text, paragraphs
from retrieval.parsing.office.word_numbering import numbered
from retrieval.parsing.parsed import MarkdownText, Parsed, collapsed, escaped, heading, listed, losses, ranges
from retrieval.parsing.table_text import fill_spans, one_line, table

_LABEL = "a PowerPoint presentation"
_MAIN = "ppt/presentation.xml"
_SHAPES = ("{*}sp", "{*}graphicFrame", "{*}pic", "{*}grpSp")
_NO_TEXT = frozenset(("dt", "ftr", "sldNum", "hdr", "sldImg"))  # placeholders that repeat on every slide
_DEEPEST = 8  # level of a list, from 0
_FORMATS = {"arabic": "decimal", "alphaLc": "lowerLetter", "alphaUc": "upperLetter"}
_FORMATS |= {"romanLc": "lowerRoman", "romanUc": "upperRoman"}
_ENDS = {"Period": "{}.", "ParenR": "{})", "ParenBoth": "({})"}


@dataclass(slots=True)
class _Losses:
    """What is not read: numbers of slides, how many comments, and names of programs."""

    slides: list[int] = field(default_factory=list)
    shapes: list[int] = field(default_factory=list)
    charts: list[int] = field(default_factory=list)
    comments: int = 0
    objects: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        return losses(
            ("Hidden slides are left out: {}", ranges(self.slides)),
            ("Hidden shapes are left out on slides {}", ranges(self.shapes)),
            ("Charts are left out on slides {}", ranges(self.charts)),
            ("Comments are left out: {}", self.comments),
            ("Embedded objects are left out: {}", listed([*dict.fromkeys(self.objects)])),
        )


def parse(content: bytes) -> Parsed:
    """Return the slides that are shown, in their order. Text of the layout behind them is left out."""
    archive = open_archive(content, _LABEL)
    relations = related(archive, _MAIN)
    document, lost, first_title = MarkdownText(), _Losses(), None
    slides = [relations[name][1] for name in _slide_ids(archive.xml(_MAIN)) if name in relations]
    for number, part in enumerate(slides, start=1):
        slide = archive.xml(part)
        if not is_on(slide, "show"):
            lost.slides.append(number)
            continue
        found = _add_slide(document, archive, part, slide, number, lost)
        first_title = found if number == 1 else first_title
    title, metadata = core_properties(archive)
    return document.parsed(title or first_title or None, metadata, pages=len(slides), warnings=lost.sentences)


def _slide_ids(presentation: etree._Element) -> list[str]:
    return [
        value
        for slide in presentation.iterfind("{*}sldIdLst/{*}sldId")
        for name, value in slide.items()
        if name.endswith("}id")  # that of the relation, in the namespace of one of the two standards
    ]


def _add_slide(
    document: MarkdownText, archive: Archive, part: str, slide: etree._Element, number: int, lost: _Losses
) -> str | None:
    """Add a slide, and return its title."""
    relations = related(archive, part)
    title, blocks = None, []
    for shape in _shapes(slide, number, lost):
        kind = _placeholder(shape)
        if kind in ("title", "ctrTitle") and title is None:
            title = collapsed(" ".join(paragraphs(shape)))
        elif kind not in _NO_TEXT:
            blocks += _blocks(shape)
            for each in shape.iter("{*}relIds", "{*}chart"):
                drawn = graphic(each, archive, relations)
                blocks += [escaped(found) if isinstance(found, str) else table(found) for found in drawn or ()]
                if drawn is None:
                    lost.charts.append(number)
            lost.objects += [attribute(each, "progId") or "object" for each in shape.iter("{*}oleObj")]
    spoken = []
    for relation, target in relations.values():
        if not archive.has(target):
            continue
        if relation == "notesSlide":
            shown = _shapes(archive.xml(target), number, lost)
            spoken += [block for shape in shown if _placeholder(shape) not in _NO_TEXT for block in _blocks(shape)]
        elif relation == "comments":
            lost.comments += sum(1 for _ in archive.xml(target).iter("{*}cm"))
    if title or any(blocks) or spoken:
        document.mark(slide=number)
        document.add(heading(1, title or f"Slide {number}"), *blocks)
        if spoken:
            document.add(heading(2, "Notes"), *spoken)
    return title


def _shapes(slide: etree._Element, number: int, lost: _Losses) -> Iterator[etree._Element]:
    """Yield the shapes of a slide that are shown, those of groups included."""
    keep_choices(slide)
    walk = etree.iterwalk(slide, events=("start",), tag=_SHAPES)
    for _, shape in walk:
        if is_on(shape.find("{*}*/{*}cNvPr[@hidden]"), "hidden"):
            lost.shapes += [number] if number not in lost.shapes[-1:] else []
            walk.skip_subtree()
        elif etree.QName(shape).localname != "grpSp":
            yield shape
            walk.skip_subtree()


def _placeholder(shape: etree._Element) -> str | None:
    found = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return None if found is None else found.get("type", "body")


def _blocks(shape: etree._Element) -> list[str]:
    name = etree.QName(shape).localname
    if name == "pic":
        words = shape.find("{*}nvPicPr/{*}cNvPr")
        return [] if words is None else [escaped(alternative_text(words))]
    if tables := list(shape.iter("{*}tbl")):
        return [_table(each) for each in tables]
    return list(_items(shape))


def _items(shape: etree._Element) -> Iterator[str]:
    """Yield the paragraphs of a shape, with their numbers where PowerPoint counts them."""
    counts: dict[int, int] = {}
    for paragraph in shape.iter("{*}p"):
        text, properties = paragraph_text(paragraph), paragraph.find("{*}pPr")
        if not text:
            continue
        level = 0 if properties is None else min(whole_number(properties.get("lvl")), _DEEPEST)
        counts = {other: count for other, count in counts.items() if other <= level}
        scheme = None if properties is None else properties.find("{*}buAutoNum")
        if scheme is None:
            counts.pop(level, None)
            yield escaped(text)
            continue
        counts[level] = counts[level] + 1 if level in counts else whole_number(scheme.get("startAt"), 1)
        kind = scheme.get("type", "")
        ending = next((each for each in _ENDS if kind.endswith(each)), "")
        label = numbered(counts[level], _FORMATS.get(kind.removesuffix(ending), ""))
        yield f"{_ENDS.get(ending, '{}').format(label)} {text}"


def _table(element: etree._Element) -> str:
    """Return a table; what was merged over rows stands in each of them."""
    rows: list[list[str]] = []
    spans: list[tuple[int, int, int]] = []
    ends: dict[int, int] = {}  # of the merged cells by column: they do not overlap
    for at, row in enumerate(element.iterfind("{*}tr")):
        rows.append([])
        for column, cell in enumerate(row.iterfind("{*}tc")):
            is_merged = any(cell.get(name) in ("1", "true") for name in ("hMerge", "vMerge"))
            rows[-1].append("" if is_merged else one_line(paragraphs(cell)))
            if (count := whole_number(cell.get("rowSpan"))) > 1 and at >= ends.get(column, 0):
                ends[column] = at + count
                spans.append((at, column, count))
    fill_spans(rows, spans)
    return table(rows) if any(map(any, rows)) else ""
