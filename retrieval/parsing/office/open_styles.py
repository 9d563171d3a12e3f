"""Styles of OpenDocument files: what they hide, and how they number lists and headings."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.office.archives import whole_number
from retrieval.parsing.office.word_numbering import BULLET, numbered

_OASIS = "{urn:oasis:names:tc:opendocument:xmlns:"
TEXT, TABLE, DRAW, FORM, STYLE, PRESENTATION = (
    f"{_OASIS}{name}:1.0}}" for name in ("text", "table", "drawing", "form", "style", "presentation")
)
_MOST_PARENTS = 10
_LEVELS = 10
_HEADINGS = "outline-style"  # which has no name of its own
_FORMATS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


class OpenStyles:
    """The styles of a document; those of its content come first."""

    def __init__(self, *roots: etree._Element) -> None:
        self._styles: dict[tuple[str | None, str | None], etree._Element] = {}
        self._lists: dict[str | None, etree._Element] = {}
        self._found: dict[tuple[str, str | None, str], str | None] = {}
        for root in roots:
            for each in root.iter(f"{STYLE}style"):
                self._styles.setdefault((each.get(f"{STYLE}family"), each.get(f"{STYLE}name")), each)
            for each in root.iter(f"{TEXT}list-style", f"{TEXT}outline-style"):
                name = each.get(f"{STYLE}name") if each.tag.endswith("list-style") else _HEADINGS
                self._lists.setdefault(name, each)

    def of(self, family: str, name: str | None, attribute: str) -> str | None:
        """Return what a style, or the one that it is based on, has as an attribute of its properties."""
        key = (family, name, attribute)
        if key not in self._found:
            self._found[key] = self._sought(family, name, attribute)
        return self._found[key]

    def _sought(self, family: str, name: str | None, attribute: str) -> str | None:
        for _ in range(_MOST_PARENTS):
            style = self._styles.get((family, name))
            if style is None:
                break
            for each in (style, *style):
                if (value := each.get(attribute)) is not None:
                    return value
            name = style.get(f"{STYLE}parent-style-name")
        return None

    def levels(self, name: str | None) -> list[_Level]:
        """Return the levels of a style of lists."""
        levels = [_Level() for _ in range(_LEVELS)]
        for each in self._lists.get(name, ()):
            at = whole_number(each.get(f"{TEXT}level"), 1) - 1
            if 0 <= at < _LEVELS and not each.tag.endswith(("bullet", "image")):
                levels[at] = _Level(
                    each.get(f"{STYLE}num-format", ""),
                    each.get(f"{STYLE}num-prefix", ""),
                    each.get(f"{STYLE}num-suffix", ""),
                    whole_number(each.get(f"{TEXT}start-value"), 1),
                    whole_number(each.get(f"{TEXT}display-levels"), 1),
                )
        return levels


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of a list. Without `number_format` it has no numbers."""

    number_format: str = ""
    prefix: str = ""
    suffix: str = ""
    start: int = 1
    shown: int = 1  # levels, counted from this one upwards


@dataclass(slots=True)
class _List:
    """What is counted of a list, and of the headings. `counts` are None before the first."""

    levels: list[_Level]
    counts: list[int | None] = field(default_factory=lambda: [None] * _LEVELS)

    def count(self, at: int, start: int | None = None) -> str:
        """Count an item, and return its label."""
        count = self.counts[at]
        self.counts[at] = start if start is not None else self.levels[at].start if count is None else count + 1
        self.counts[at + 1 :] = [None] * (_LEVELS - at - 1)
        level = self.levels[at]
        if not level.number_format:
            return ""
        numbers = [
            numbered(count if count is not None else each.start, _FORMATS.get(each.number_format, "decimal"))
            for each, count in zip(self.levels[: at + 1], self.counts, strict=False)
            if each.number_format
        ]
        return f"{level.prefix}{'.'.join(numbers[-level.shown :] if level.shown else numbers)}{level.suffix}".strip()


class OpenNumbering:
    """The numbers of lists and headings. The elements of a text come in their order, lists with their beginning and
    their end."""

    def __init__(self, styles: OpenStyles) -> None:
        self._styles = styles
        self._headings = _List(styles.levels(_HEADINGS))
        self._open: list[tuple[_List, str | None]] = []
        self._by_style: dict[str | None, _List] = {}
        self._by_name: dict[str | None, _List] = {}
        self.label: str | None = None  # of the item that has just begun

    @property
    def depth(self) -> int:
        """How many lists are around the next element."""
        return len(self._open)

    def begin(self, element: etree._Element) -> None:
        style = element.get(f"{TEXT}style-name")
        if self._open:
            outer, outer_style = self._open[-1]
            if style is not None and style != outer_style:
                outer = _List(self._styles.levels(style), list(outer.counts))
            self._open.append((outer, style or outer_style))
            return
        found = self._by_name.get(element.get(f"{TEXT}continue-list"))
        if found is None and element.get(f"{TEXT}continue-numbering") == "true":
            found = self._by_style.get(style)
        if found is None:
            found = _List(self._styles.levels(style))
        self._by_style[style] = found
        if (name := element.get("{http://www.w3.org/XML/1998/namespace}id")) is not None:
            self._by_name[name] = found
        self._open.append((found, style))

    def end(self) -> None:
        self._open.pop()
        self.label = None

    def item(self, element: etree._Element) -> None:
        start = element.get(f"{TEXT}start-value")
        at = min(self.depth, _LEVELS) - 1
        self.label = (
            self._open[-1][0].count(at, whole_number(start) if start else None) or BULLET if self._open else None
        )

    def heading(self, element: etree._Element, level: int) -> str:
        """Count a heading of a level, from 1, and return its number."""
        if element.get(f"{TEXT}is-list-header") == "true":
            return ""
        start = element.get(f"{TEXT}start-value")
        return self._headings.count(min(level, _LEVELS) - 1, whole_number(start) if start else None)
