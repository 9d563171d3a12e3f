"""Automatic numbers of Word documents, counted as Word counts them: 2.1, (a), IV."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.office.archives import attribute, is_on, whole_number

BULLET = "-"
LEVELS = 9
_PLACE = re.compile(r"%([1-9])")
_MOST_CHARACTERS = 100  # of the text around a number
_MOST_LINKS = 10
_LETTERS = ["m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"]
_VALUES = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)


@dataclass(frozen=True, slots=True)
class _Level:
    start: int = 1
    number_format: str = "decimal"
    text: str = ""
    restarts_after: int = LEVELS  # the deepest level, from 1, after which it begins anew
    is_legal: bool = False


_PLAIN = _Level()


@dataclass(slots=True)
class _List:
    """A definition of numbers, and how far they have been counted: None before the first."""

    levels: dict[int, _Level] = field(default_factory=dict)
    of_styles: dict[str, int] = field(default_factory=dict)
    counts: list[int | None] = field(default_factory=lambda: [None] * LEVELS)


class Numbering:
    """The lists of a document. Paragraphs ask in their order."""

    def __init__(self, root: etree._Element | None, list_of_style: Callable[[str], str | None]) -> None:
        """`list_of_style` gives the number of the list that a style names."""
        self._lists: dict[str, _List] = {}
        self._links: dict[str, str] = {}
        self._instances: dict[str, tuple[str, dict[int, _Level], dict[int, int]]] = {}
        self._begun: set[tuple[str, int]] = set()
        self._list_of_style = list_of_style
        for each in () if root is None else root.iterfind("{*}abstractNum"):
            name = attribute(each, "abstractNumId") or ""
            found = self._lists[name] = _List()
            for element in each.iterfind("{*}lvl"):
                level = _index(attribute(element, "ilvl"))
                found.levels[level] = _level(element)
                if style := attribute(element.find("{*}pStyle"), "val"):
                    found.of_styles[style] = level
            if link := attribute(each.find("{*}numStyleLink"), "val"):
                self._links[name] = link
        for each in () if root is None else root.iterfind("{*}num"):
            levels, starts = {}, {}
            for override in each.iterfind("{*}lvlOverride"):
                level = _index(attribute(override, "ilvl"))
                if (element := override.find("{*}lvl")) is not None:
                    levels[level] = _level(element)
                if start := attribute(override.find("{*}startOverride"), "val"):
                    starts[level] = whole_number(start)
            name = attribute(each.find("{*}abstractNumId"), "val") or ""
            self._instances[attribute(each, "numId") or ""] = (name, levels, starts)

    def level_of(self, number: str, style: str) -> int:
        """Return the level that a list has for the paragraphs of a style."""
        found = self._found(number)
        return found.of_styles.get(style, 0) if found else 0

    def next_label(self, number: str, level: int) -> str:
        """Count a paragraph of a list, and return its number as it is shown, "-" for a bullet, "" for none."""
        found = self._found(number)
        if found is None:
            return ""
        _, own, starts = self._instances[number]
        levels, counts = found.levels | own if own else found.levels, found.counts
        counted, begins = counts[level], level in starts and (number, level) not in self._begun
        if counted is None or begins:
            counts[level] = starts.get(level, levels.get(level, _PLAIN).start)
            self._begun.add((number, level))
        else:
            counts[level] = counted + 1
        for deeper in range(level + 1, LEVELS):
            if level < levels.get(deeper, _PLAIN).restarts_after:
                counts[deeper] = None
        shown = levels.get(level, _PLAIN)

        def number_at(match: re.Match[str]) -> str:
            other = levels.get(at := int(match[1]) - 1, _PLAIN)
            count = counts[at]
            return numbered(
                other.start if count is None else count, "decimal" if shown.is_legal else other.number_format
            )

        return _PLACE.sub(number_at, shown.text).strip()

    def _found(self, number: str) -> _List | None:
        for _ in range(_MOST_LINKS):
            name = self._instances.get(number, ("",))[0]
            if name not in self._links:
                return self._lists.get(name)
            number = self._list_of_style(self._links[name]) or ""
        return None


def numbered(count: int, number_format: str) -> str:
    """Return a number as letters, Roman or decimal; decimal too for formats that are not known."""
    kind = number_format.lower()
    if kind == "none":
        return ""
    if kind.endswith("letter") and 0 < count <= 26 * 5:
        text = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
    elif kind.endswith("roman") and 0 < count < 4000:
        text = ""
        for letters, value in zip(_LETTERS, _VALUES, strict=True):
            text += letters * (count // value)
            count %= value
    else:
        text = f"{count:02}" if kind == "decimalzero" else str(count)
    return text.upper() if kind.startswith("upper") else text


def _level(element: etree._Element) -> _Level:
    level = _index(attribute(element, "ilvl"))
    kind, text = (attribute(element.find(f"{{*}}{name}"), "val") or "" for name in ("numFmt", "lvlText"))
    if kind == "bullet" and (text.strip() or element.find("{*}lvlPicBulletId") is not None):
        text = BULLET
    restart = attribute(element.find("{*}lvlRestart"), "val")
    return _Level(
        whole_number(attribute(element.find("{*}start"), "val")),
        kind or "decimal",
        text[:_MOST_CHARACTERS],
        whole_number(restart, level),
        is_on(element.find("{*}isLgl")),
    )


def _index(text: str | None) -> int:
    return min(whole_number(text), LEVELS - 1)
