"""Signs of fonts that are not Unicode: Greek and mathematics of Symbol, boxes, ticks and arrows of Wingdings."""

from __future__ import annotations

from retrieval.parsing.table_text import TICKED, UNTICKED

_SYMBOL_LOWER = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_SYMBOL_UPPER = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
_SIGNS: dict[str, dict[int, str]] = {
    "symbol": dict(enumerate(_SYMBOL_LOWER, start=0x20)) | dict(enumerate(_SYMBOL_UPPER, start=0xA0)),
    "wingdings": {
        **dict.fromkeys((0x6F, 0x70, 0x71, 0x72, 0xA8), UNTICKED),
        **dict.fromkeys((0xFD, 0xFE, 0x78), TICKED),
        **{0xFB: "✗", 0xFC: "✓", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE7: "←", 0xE8: "→", 0xF0: "⇨"},
        **{0x80 + digit: chr(0x2460 + digit - 1) if digit else "⓪" for digit in range(11)},
    },
    "wingdings 2": {
        **dict.fromkeys((0x2A, 0x30, 0xA3), UNTICKED),
        **dict.fromkeys((0x51, 0x52, 0x53, 0x54), TICKED),
        **{0x4F: "✗", 0x50: "✓"},
    },
}
_BOXES = {"☐": UNTICKED, "☑": TICKED, "☒": TICKED, "🗹": TICKED, "🗷": TICKED}
_PRIVATE = range(0xF020, 0xF100)  # where such fonts have their signs in Unicode


def sign(code: str, font: str) -> str:
    """Return a sign of a font by its code in hexadecimal digits; "" when it is not known."""
    try:
        return _SIGNS.get(font.lower(), {}).get(int(code, 16) & 0xFF, "") if len(code) <= 4 else ""
    except ValueError:
        return ""


def shown(text: str, font: str) -> str:
    """Return a text in which signs of a font, and boxes, are such as can be read."""
    if text.isascii():
        return text
    signs = _SIGNS.get(font.lower(), {})
    return "".join(
        signs.get(ord(each) & 0xFF, each) if ord(each) in _PRIVATE else _BOXES.get(each, each) for each in text
    )
