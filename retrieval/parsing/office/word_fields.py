"""Fields of Word documents: which text is an instruction and which is shown, the boxes and choices of forms, and the
numbers of pages, which change from page to page."""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.office.archives import attribute, is_on, whole_number
from retrieval.parsing.table_text import TICKED, UNTICKED

PAGE = "\f"
"""Stands for the number of a page: XML cannot hold it."""
_PAGE_FIELDS = frozenset(("PAGE", "NUMPAGES", "SECTIONPAGES"))
_MOST = 50  # fields within each other
_BESIDE = " -–—/|·•"  # signs that stand beside the number of a page


@dataclass(slots=True)
class _Field:
    instruction: list[str] = field(default_factory=list)
    is_shown: bool = False  # after the instruction comes what is shown
    is_replaced: bool = False  # by something else than is stored as shown


class Fields:
    """The fields that are open at a place of a text. `is_muted` says whether the text there is not to be read. Numbers
    of pages are replaced by a sign in a header or footer."""

    def __init__(self, in_margin: bool) -> None:
        self._in_margin = in_margin
        self._open: list[_Field] = []
        self.is_muted = False

    def instruct(self, text: str) -> None:
        if self._open and not self._open[-1].is_shown:
            self._open[-1].instruction.append(text)

    def is_page_number(self, instruction: str) -> bool:
        return self._in_margin and "".join(instruction.upper().split(maxsplit=1)[:1]) in _PAGE_FIELDS

    def change(self, element: etree._Element) -> str:
        """Take a beginning, middle or end, and return what stands there instead of what is stored."""
        change, text = attribute(element, "fldCharType"), ""
        if change == "begin":
            text = "" if self.is_muted else _chosen(element.find("{*}ffData"))
            self._open.append(_Field(is_replaced=bool(text)))
            del self._open[_MOST:]
        elif self._open:
            last = self._open[-1]
            if not last.is_shown and self.is_page_number("".join(last.instruction)):
                last.is_replaced, text = True, PAGE
            last.is_shown = True
            if change == "end":
                self._open.pop()
        outer = self._open[:-1] if change != "end" else self._open
        text = "" if any(not each.is_shown or each.is_replaced for each in outer) else text
        self.is_muted = any(not each.is_shown or each.is_replaced for each in self._open)
        return text

    def end_paragraph(self) -> None:
        """End all instructions, so that one without an end hides no more than its paragraph."""
        if self.is_muted:
            for each in self._open:
                each.is_shown = True
            self.is_muted = any(each.is_replaced for each in self._open)


def without_page_numbers(text: str) -> str:
    """Return a line without numbers of pages and the word before each: "Page 3 of 7"; "" if no words are left."""
    *before, after = text.split(PAGE)
    if not before:
        return text
    pieces = (piece.rstrip(" ").rpartition(" ") for piece in before)
    kept = [f"{rest} {word}" if any(map(str.isdigit, word)) else rest for rest, _, word in pieces]
    line = " ".join((*kept, after)).strip(_BESIDE)
    return line if sum(map(str.isalpha, line)) > 1 else ""


def _chosen(form: etree._Element | None) -> str:
    """Return the box, or the entry that is chosen, of a field of a form of before 2007."""
    box, choice = (None, None) if form is None else (form.find("{*}checkBox"), form.find("{*}ddList"))
    if box is not None:
        checked = box.find("{*}checked")
        return TICKED if is_on(box.find("{*}default") if checked is None else checked) else UNTICKED
    if choice is None:
        return ""
    result = choice.find("{*}result")
    place = whole_number(attribute(choice.find("{*}default") if result is None else result, "val"))
    return next((attribute(each, "val") or "" for each in choice.findall("{*}listEntry")[place : place + 1]), "")
