"""Equations of Office documents (OMML), written on a line: E=mc^2, (a+b)/2, √x."""

from __future__ import annotations

import re

from lxml import etree

from retrieval.parsing.office.archives import attribute
from retrieval.parsing.parsed import collapsed

# Brackets that are left out around one letter, word or number. XML cannot hold these two characters.
_OPEN, _CLOSE = "\x01", "\x02"
_SINGLE = re.compile(f"{_OPEN}([^\\W\\d_]+|\\d+(?:[.,]\\d+)?|\\W?){_CLOSE}")
_BRACKETS = str.maketrans({_OPEN: "(", _CLOSE: ")"})
_BEFORE = {
    "num": _OPEN,
    "den": f"/{_OPEN}",
    "sup": f"^{_OPEN}",
    "sub": f"_{_OPEN}",
    ("lim", "limLow"): f"_{_OPEN}",
    ("lim", "limUpp"): f"^{_OPEN}",
    ("e", "rad"): f"√{_OPEN}",
    ("e", "func"): " ",
    ("e", "nary"): " ",
}
_AFTER = dict.fromkeys(("num", "den", "sup", "sub", "lim", ("e", "rad")), _CLOSE)
_BETWEEN = {"mr": ", ", "m": "; ", "eqArr": "; ", "oMathPara": "; "}


def formula(element: etree._Element) -> str:
    """Return the text of an equation in its order, with signs for fractions, roots, exponents and indices."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        name, above = _name(each), _name(each.getparent())
        if event == "end":
            closing = _sign(each, "endChr", ")") if name == "d" else ""
            parts.append(_AFTER.get((name, above)) or _AFTER.get(name) or closing)
        elif name in ("del", "moveFrom", "ctrlPr", "rPr"):
            walk.skip_subtree()
        elif name == "t":
            parts.append(each.text or "")
        elif name == "d":
            parts.append(_sign(each, "begChr", "("))
        elif name == "nary":
            parts.append(_sign(each, "chr", "∫"))
        elif name in ("e", "mr", "oMath") and _name(each.getprevious()) == name:
            parts.append(_sign(each.getparent(), "sepChr", "|") if above == "d" else _BETWEEN.get(above, ""))
        else:
            parts.append(_BEFORE.get((name, above)) or _BEFORE.get(name) or "")
    return collapsed(_SINGLE.sub(r"\1", "".join(parts)).translate(_BRACKETS))


def _name(element: etree._Element | None) -> str:
    return "" if element is None or not isinstance(element.tag, str) else etree.QName(element).localname


def _sign(element: etree._Element | None, name: str, default: str) -> str:
    found = None if element is None else element.find(f"{{*}}{_name(element)}Pr/{{*}}{name}")
    return default if found is None else attribute(found, "val") or ""
