"""Styles of Word documents: what paragraphs and words have from them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lxml import etree

from retrieval.parsing.office.archives import attribute, is_on, whole_number

BODY_LEVEL = 9
_HEADING = re.compile(r"heading ([1-9])", re.I)


@dataclass(frozen=True, slots=True)
class Style:
    """A style with what it has from those it is based on. `level` is that of the outline from 0, 9 for text; `number`
    and `item_level` are of a list, and `listed_by` is the style that names it."""

    name: str = ""
    level: int = BODY_LEVEL
    number: str | None = None
    item_level: int | None = None
    listed_by: str = ""
    is_hidden: bool = False
    font: str = ""


class Styles:
    """The styles of a document by their ids."""

    def __init__(self, root: etree._Element | None) -> None:
        self._elements: dict[str, etree._Element] = {}
        self._found: dict[str, Style] = {}
        self.default = ""
        """The style of paragraphs that name none."""
        for each in () if root is None else root.iterfind("{*}style"):
            name = attribute(each, "styleId") or ""
            self._elements[name] = each
            if attribute(each, "type") == "paragraph" and attribute(each, "default") in ("1", "true", "on"):
                self.default = name

    def style(self, name: str | None) -> Style:
        """Return a style; that of nothing when there is none of this id. Circles end where they begin."""
        chain: list[str] = []
        while name and name in self._elements and name not in self._found:
            self._found[name] = Style()
            chain.append(name)
            name = attribute(self._elements[name].find("{*}basedOn"), "val")
        style = self._found.get(name or "", Style())
        for each in reversed(chain):
            style = self._found[each] = _based_on(style, each, self._elements[each])
        return style

    def list_of(self, name: str) -> str | None:
        return self.style(name).number


def _based_on(style: Style, identifier: str, element: etree._Element) -> Style:
    name = attribute(element.find("{*}name"), "val") or ""
    level, number, item_level = paragraph_properties(element.find("{*}pPr"))
    named = _HEADING.fullmatch(name)
    if level is None and named:
        level = int(named[1]) - 1
    if number is not None or item_level is not None:
        style = replace(style, listed_by=identifier)
    hidden, font = run_properties(element.find("{*}rPr"))
    return replace(
        style,
        name=name.lower(),
        level=style.level if level is None else level,
        number=style.number if number is None else number,
        item_level=style.item_level if item_level is None else item_level,
        is_hidden=style.is_hidden if hidden is None else hidden,
        font=font or style.font,
    )


def paragraph_properties(properties: etree._Element | None) -> tuple[int | None, str | None, int | None]:
    """Return the level of the outline, the number of the list and the level in it, None where they are not named."""
    if properties is None:
        return None, None, None
    level, number, item_level = (
        attribute(properties.find(f"{{*}}{name}"), "val") for name in ("outlineLvl", "numPr/{*}numId", "numPr/{*}ilvl")
    )
    return (
        None if level is None else whole_number(level, BODY_LEVEL),
        number,
        None if item_level is None else min(whole_number(item_level), 8),
    )


def run_properties(properties: etree._Element | None) -> tuple[bool | None, str]:
    """Return whether words are hidden, None where that is not named, and their font."""
    if properties is None:
        return None, ""
    vanish, fonts = properties.find("{*}vanish"), properties.find("{*}rFonts")
    return None if vanish is None else is_on(vanish), attribute(fonts, "ascii") or ""
