"""The words of HTML on one line, and what stands for elements that are shown as something else: pictures, forms,
formulas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any

from lxml import etree

from retrieval.parsing.parsed import collapsed, is_raised_behind
from retrieval.parsing.table_text import TICKED, UNTICKED

# Never text that people read. Forms are not among them: whole pages may be in one.
_SKIPPED_NAMES = """
    script style noscript template svg iframe object embed canvas audio video head title rt rp datalist button
"""
SKIPPED = frozenset(_SKIPPED_NAMES.split())
REPLACED = frozenset(("img", "input", "math", "select", "textarea"))
"""Elements for which `replacement` stands, not what is in them."""
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset(("ul", "ol", "menu", "dir"))
_BLOCK_NAMES = """
    p div section article main header footer aside nav figure figcaption address details summary dl dt dd form fieldset
    legend center body html hr tr td th tbody thead tfoot caption table
"""
BLOCKS = frozenset(_BLOCK_NAMES.split())
APART = dict.fromkeys((*BLOCKS, *HEADINGS, *LISTS, "pre", "blockquote", "li", "br"), (" ", " "))
"""What stands before and after elements whose words are apart."""
_BOXES = frozenset(("checkbox", "radio"))
_WRITTEN = frozenset(["text", "email", "tel", "url", "number", "date", "datetime-local", "month", "time", "week"])
_DISPLAYED = re.compile(r"\A\{\\displaystyle (.*)\}\s*\Z", re.DOTALL)
_BESIDE_BOXES = frozenset(("label", "span", "b", "strong", "em"))


def local_name(element: etree._Element) -> str | None:
    """Return the tag without its namespace, in lower case; None for comments and the like."""
    if not isinstance(element.tag, str):
        return None
    return element.tag.rpartition("}")[2].lower()


def text_of(element: etree._Element, skipped: Set[str] = SKIPPED, around: Mapping[Any, tuple[str, str]] = APART) -> str:
    """Return the words below an element on one line, without elements that are `skipped`. Before and after others
    stands what `around` has for them: in HTML, words of different blocks are apart."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        tag = local_name(each)
        before, after = around.get(tag, ("", ""))
        if event == "end":
            parts += [after, "" if each is element else each.tail or ""]
        elif tag is None or tag in skipped:
            walk.skip_subtree()
        elif tag in REPLACED:
            parts.append(replacement(each, tag))
            walk.skip_subtree()
        else:
            parts += [before, each.text or ""]
    return collapsed("".join(parts))


def replacement(element: etree._Element, tag: str) -> str:
    """Return what people see of an element of REPLACED: a picture's text, a field's value, a box, a formula."""
    if tag == "math":
        return _formula(element)
    if tag == "img":
        shown = element.get("alt")
    elif tag == "input":
        shown = _input(element)
    elif tag == "select":
        shown = ", ".join(text_of(each) for each in element.iter("option") if each.get("selected") is not None)
    else:
        shown = element.text
    return f" {shown} " if shown else " "


def mark_raised(element: etree._Element) -> None:
    """Put a sign before a raised number behind a digit: ten to the sixth is 10^6, not 106."""
    before, parent = element.getprevious(), element.getparent()
    if before is not None:
        text = before.tail or "".join(before.itertext())
    else:
        text = (parent.text or "") if parent is not None else ""
    if is_raised_behind(text, next(element.itertext(), "")):
        element.text = f"^{element.text or ''}"


def number_of(element: etree._Element, name: str) -> int:
    """Return an attribute that is a number, 1 when it is none."""
    number = element.get(name, "1").strip()
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1


def _input(element: etree._Element) -> str | None:
    kind = (element.get("type") or "text").lower()
    if kind in _WRITTEN:
        return element.get("value")
    if kind not in _BOXES or not _has_words_beside(element):
        return None
    return UNTICKED if element.get("checked") is None else TICKED


def _has_words_beside(box: etree._Element) -> bool:
    """Return whether a box stands at words. Others only have a style sheet show or hide something."""
    before, after, parent = box.getprevious(), box.getnext(), box.getparent()
    text_before = before.tail if before is not None else parent.text if parent is not None else None
    if any(text and text.strip() for text in (text_before, box.tail)):
        return True
    if parent is not None and local_name(parent) in ("label", "td", "th", "p"):
        return True
    beside = [each for each in (before, after) if each is not None and local_name(each) in _BESIDE_BOXES]
    return any(text.strip() for each in beside for text in each.itertext())


def _formula(element: etree._Element) -> str:
    """Return a formula in TeX where it is there, else its signs in order."""
    for note in element.iter("annotation"):
        if "tex" in (note.get("encoding") or "").lower() and note.text:
            return collapsed(note.text)
    if written := element.get("alttext"):
        return collapsed(_DISPLAYED.sub(r"\1", written))
    for note in list(element.iter("annotation", "annotation-xml")):
        note.clear(keep_tail=True)
    return collapsed("".join(element.itertext()))
