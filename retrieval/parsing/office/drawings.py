"""What Word documents and presentations share: the text of drawings, of SmartArt and of charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from lxml import etree

from retrieval.parsing.office.archives import Archive, attribute, whole_number
from retrieval.parsing.office.cell_formats import GENERAL, shown
from retrieval.parsing.office.equations import formula
from retrieval.parsing.parsed import collapsed, is_raised_behind

Rows = list[list[str]]
_MOST_CELLS = 20_000  # of a chart
_NUMBERS = ("val", "yVal")
_GENERATED = re.compile("Description automatically generated|AI-generated content may be incorrect")
_FILE_NAME = re.compile(r"\S+\.\w{2,4}")


def paragraphs(element: etree._Element) -> list[str]:
    """Return the paragraphs of a shape or cell, without the empty ones."""
    return [text for each in element.iter("{*}p") if (text := paragraph_text(each))]


def paragraph_text(paragraph: etree._Element) -> str:
    """Return a paragraph of a drawing on one line, with its equations."""
    parts: list[str] = []
    walk = etree.iterwalk(paragraph, events=("start",), tag=("{*}t", "{*}br", "{*}tab", "{*}oMath"))
    for _, each in walk:
        name = etree.QName(each).localname
        text = formula(each) if name == "oMath" else (each.text or "") if name == "t" else " "
        is_raised = whole_number(attribute(each.getprevious(), "baseline")) > 0  # of the run's properties
        parts.append(f"^{text}" if is_raised and parts and is_raised_behind(parts[-1], text) else text)
        walk.skip_subtree()
    return collapsed("".join(parts))


def alternative_text(properties: etree._Element) -> str:
    return picture_words(attribute(properties, "descr") or "")


def picture_words(description: str) -> str:
    """Return the words that stand for a picture, not those that a program wrote: the name of a file, or that it wrote
    them."""
    text = collapsed(_GENERATED.split(description, maxsplit=1)[0])
    return "" if _FILE_NAME.fullmatch(text) else text


def graphic(
    element: etree._Element, archive: Archive, relations: Mapping[str, tuple[str, str]]
) -> list[str | Rows] | None:
    """Return the texts and tables of what an element shows of another part, SmartArt (`relIds`) or a chart (`chart`);
    None when it cannot be read."""
    is_chart = etree.QName(element).localname == "chart"
    _, part = relations.get(attribute(element, "id" if is_chart else "dm") or "", ("", ""))
    if not archive.has(part):
        return None
    root = archive.xml(part)
    return (_chart(root) or None) if is_chart else [*_smart_art(root)]


def _smart_art(root: etree._Element) -> Iterator[str]:
    """Yield the texts of SmartArt in the order in which they are shown."""
    points = {each.get("modelId", ""): each for each in root.iterfind("{*}ptLst/{*}pt")}
    below: dict[str, list[tuple[int, str]]] = {}
    for each in root.iterfind("{*}cxnLst/{*}cxn"):
        if each.get("type", "parOf") == "parOf":
            below.setdefault(each.get("srcId", ""), []).append(
                (whole_number(each.get("srcOrd")), each.get("destId", ""))
            )
    pending = [*reversed(points)]
    pending.sort(key=lambda name: points[name].get("type") == "doc")
    while pending:
        name = pending.pop()
        point = points.pop(name, None)
        if point is None:
            continue
        pending += [child for _, child in sorted(below.pop(name, []), reverse=True)]
        if text := " ".join(paragraphs(point)):
            yield text


def _chart(root: etree._Element) -> list[str | Rows]:
    """Return the title of a chart and a table of its series, one for all that share their categories."""
    found: list[str | Rows] = [" ".join(paragraphs(each)) for each in root.iterfind("{*}chart/{*}title")]
    tables: dict[tuple[tuple[int, str], ...], list[tuple[str, dict[int, str]]]] = {}
    for series in root.iter("{*}ser"):
        categories, values = (_points(series, *names) for names in (("cat", "xVal"), ("val", "yVal")))
        name = " ".join(_points(series, "tx").values()) or " ".join(
            each.text or "" for each in series.iterfind("{*}tx/{*}v")
        )
        tables.setdefault(tuple(sorted(categories.items())), []).append((collapsed(name), values))
    for labels, columns in tables.items():
        shown, places = (
            dict(labels),
            sorted({place for _, values in columns for place in values} | {at for at, _ in labels}),
        )
        if not places or len(places) * len(columns) > _MOST_CELLS:
            return []
        rows = [[shown.get(place, ""), *(values.get(place, "") for _, values in columns)] for place in places]
        found.append([["", *(name for name, _ in columns)], *rows])
    return [each for each in found if each]


def _points(series: etree._Element, *names: str) -> dict[int, str]:
    """Return the values that are stored for a series' name, categories or values: place to text."""
    found: dict[int, str] = {}
    for element in chain.from_iterable(series.iterfind(f"{{*}}{name}") for name in names):
        code = GENERAL if etree.QName(element).localname in _NUMBERS else ""
        for each in element.iter("{*}formatCode", "{*}pt"):
            if etree.QName(each).localname == "formatCode":
                code = each.text or code
                continue
            place, text = whole_number(each.get("idx")), each.findtext("{*}v") or ""
            text = shown(text, each.get("formatCode") or code) if code else text
            # The outer of two categories comes later.
            found[place] = f"{text} {found[place]}" if place in found else text
    return found
