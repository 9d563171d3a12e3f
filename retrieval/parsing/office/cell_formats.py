"""Numbers of Excel as its formats show them: `0.475` with `0.0%` is 47.5%, `501` with `00000` is 00501; dates in ISO.

Separators are those of English: a file does not say in which country it is read. Where a format cannot be followed, the
number is shown as it is.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile

GENERAL = "General"
_DATE, _TIME = "yyyy-mm-dd", "h:mm:ss"
BUILT_IN = {
    **dict.fromkeys((*range(14, 18), *range(27, 32), 36, *range(50, 55), 57, 58), _DATE),
    **dict.fromkeys((19, 21, *range(32, 36), 55, 56), _TIME),
    **dict.fromkeys((3, 5, 6, 37, 38, 41, 42), "#,##0"),  # which currency depends on the country
    **dict.fromkeys((4, 7, 8, 39, 40, 43, 44), "#,##0.00"),
    **{1: "0", 2: "0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 18: "h:mm", 20: "h:mm"},
    **{22: f"{_DATE} h:mm", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@"},
}
"""The formats that files name by number alone."""

_MOST_CHARACTERS = 255  # of a format in Excel
_TOKEN = re.compile(
    r'"([^"]*)"?|\\(.)|_.?|\*.?|\[([^\]]*)\]?|(general)|am/pm|a/p|e([+-])|(.)', re.IGNORECASE | re.DOTALL
)
_CONDITIONS = ("<", ">", "=")
_USUAL = re.compile(r"(#,##)?(0(?:\.0{1,9})?)(%?)")  # most formats of numbers, shown fast
_PLACES = frozenset("0#?")
_SECONDS_OF = {"h": 3600, "m": 60, "s": 1}
_EXACT = Context(prec=700, rounding=ROUND_HALF_UP)
_LAST_DAY = 2_958_465
_DAYS_TO_1904 = 1462

_Tokens = list[tuple[str, str]]
"""A part of a format, for some of the numbers, as (kind, text). The kind is the sign itself, "" for literals, "E" for
an exponent, and "[h]" for a unit of which the total is shown."""


@lru_cache(maxsize=1 << 16)
def shown(number: str, code: str, *, since_1904: bool = False) -> str:
    """Return a number, as a file spells it, in the format of a code; what is no number is returned as it is."""
    try:
        text = f"{float(number):.15g}"  # Excel's own precision
        if code == GENERAL and "e" not in text:
            return text
        value, usual = Decimal(text), _USUAL.fullmatch(code)
        if usual is None:
            return _shown(value, _sections(code), since_1904).strip()
        value = value.scaleb(2 if usual[3] else 0, _EXACT).quantize(Decimal(usual[2]), context=_EXACT)
        return f"{value if value else abs(value):{',' if usual[1] else ''}f}{usual[3]}"
    except (ValueError, InvalidOperation, OverflowError):
        return number


def shown_text(text: str, code: str) -> str:
    """Return a text in the format of a code, whose last part may set words around texts."""
    sections = _sections(code)
    tokens = sections[3] if len(sections) > 3 else sections[0]
    return _around(tokens, text) if any(kind == "@" for kind, _ in tokens) else text


@lru_cache(maxsize=4096)
def _sections(code: str) -> list[_Tokens]:
    """Return the parts of a format; one with conditions of its own is not followed."""
    sections: list[_Tokens] = [[]]
    for found in _TOKEN.finditer(code if len(code) <= _MOST_CHARACTERS else GENERAL):
        quoted, escaped, bracket, general, exponent, other = found.groups()
        tokens = sections[-1]
        unit = (bracket or "")[:1].lower()
        if other == ";":
            sections.append([])
        elif unit in _CONDITIONS:
            return [[("@", "")]]
        elif unit == "$":
            tokens.append(("", bracket[1:].partition("-")[0]))
        elif unit in _SECONDS_OF and not bracket.lower().strip(unit):
            tokens.append((f"[{unit}]", bracket))
        elif general:
            tokens.append(("@", ""))
        elif exponent:
            tokens.append(("E", exponent))
        elif other:
            tokens.append((other.lower() if other in "YMDHS" else other, other))
        else:
            tokens.append(("", " " if found[0].startswith("_") else quoted or escaped or ""))
    return sections


def _shown(value: Decimal, sections: list[_Tokens], since_1904: bool) -> str:
    at = 1 if value < 0 and len(sections) > 1 else 2 if not value and len(sections) > 2 else 0
    tokens, sign = sections[at], "-" if value < 0 and at == 0 else ""
    kinds = [kind for kind, _ in tokens]
    first = next((place for place, kind in enumerate(kinds) if kind in _PLACES), None)
    is_time = not {*"ymdhs"}.isdisjoint(kinds) and (first is None or "s" in kinds[:first])  # ss.0 has digits, too
    if any(kind.startswith("[") for kind in kinds) or (is_time and "s" in kinds and {*"ydh"}.isdisjoint(kinds)):
        return sign + _elapsed(tokens, abs(value))
    if is_time:
        return _date(kinds, value + _DAYS_TO_1904 if since_1904 else value)
    if first is None:
        return _around(tokens, sign + _plain(abs(value)))
    return _fraction(kinds, abs(value), sign) if "/" in kinds else _number(tokens, abs(value), sign)


def _around(tokens: _Tokens, text: str) -> str:
    return "".join(text if kind == "@" else literal for kind, literal in tokens)


def _plain(value: Decimal) -> str:
    return f"{value:f}" if not value or -10 <= value.adjusted() <= 20 else f"{value:E}"


def _number(tokens: _Tokens, value: Decimal, sign: str) -> str:
    """Show a number by its places: those before the point, after it, and of an exponent."""
    kinds = [kind for kind, _ in tokens]
    end = kinds.index("E") if "E" in kinds else len(kinds)
    point = kinds.index(".", 0, end) if "." in kinds[:end] else end
    last = max(at for at in range(end) if kinds[at] in _PLACES)
    thousands = sum(1 for _ in takewhile(",".__eq__, kinds[last + 1 :]))
    amount, exponent = value.scaleb(2 * kinds.count("%") - 3 * thousands, _EXACT), ""
    places = sum(kind in _PLACES for kind in kinds[point:end])
    if end < len(kinds):
        mantissa, _, power = f"{float(amount):.{places}e}".partition("e")
        plus = "-" if int(power) < 0 else tokens[end][1].strip("-")
        amount, exponent = Decimal(mantissa), f"E{plus}{_whole(tokens[end + 1 :], str(abs(int(power))))}"
    rounded = amount.quantize(Decimal(1).scaleb(-places), context=_EXACT)
    before, _, after = f"{rounded:f}".partition(".")
    behind = _behind(tokens[point + 1 : end], after)
    return (sign if rounded else "") + _whole(tokens[:point], before) + behind + exponent


def _whole(tokens: _Tokens, digits: str) -> str:
    """Set digits into places, from the right; the first place takes what is left."""
    places = [at for at, (kind, _) in enumerate(tokens) if kind in _PLACES]
    least = next((len(places) - at for at, place in enumerate(places) if tokens[place][0] == "0"), 0)
    spread = list(digits.lstrip("0").zfill(least))
    if places and any(kind == "," for kind, _ in tokens[places[0] : places[-1]]):
        for at in range(len(spread) - 3, 0, -3):
            spread.insert(at, ",")
        places = places[-1:]
    filled = {}
    for place in reversed(places[1:]):
        filled[place] = spread.pop() if spread else ""
    filled |= {place: "".join(spread) for place in places[:1]}
    literals = ("" if kind == "," or kind in _PLACES else text for kind, text in tokens)
    return "".join(filled.get(at, literal) for at, literal in enumerate(literals))


def _behind(tokens: _Tokens, digits: str) -> str:
    """Write the digits behind the point, and the point where there are any."""
    places = [kind for kind, _ in tokens if kind in _PLACES]
    least = max((at for at, kind in enumerate(places, start=1) if kind == "0"), default=0)
    digits = digits[: max(least, len(digits.rstrip("0")))]
    rest = iter(digits)
    text = "".join(next(rest, "") if kind in _PLACES else "" if kind == "," else text for kind, text in tokens)
    return f".{text}" if digits else text


def _fraction(kinds: list[str], value: Decimal, sign: str) -> str:
    """Show a number as a whole one and a fraction, of so many digits or of a number that is given."""
    behind = kinds[kinds.index("/") + 1 :]
    below = "".join(takewhile("0123456789?#".__contains__, (kind for kind in behind if kind != " ")))
    number = Fraction(value)
    if below.isdigit() and int(below):
        upper, lower = round((number % 1) * int(below)), int(below)
    else:
        upper, lower = (number % 1).limit_denominator(10 ** min(len(below) or 1, 4) - 1).as_integer_ratio()
    whole = int(number) + (upper == lower)
    fraction = f"{upper}/{lower}" if upper % lower else ""
    return sign + (" ".join(filter(None, (str(whole) if whole else "", fraction))) or "0")


def _elapsed(tokens: _Tokens, value: Decimal) -> str:
    """Show a time that has passed: 27:30. The first unit is not bounded where it stands in brackets."""
    parts = sum(kind == "0" for kind, _ in tokens)
    total = (value * 86_400).quantize(Decimal(1).scaleb(-parts), context=_EXACT)
    written, last = "", ""
    for kind, text in tokens:
        unit = kind.strip("[]")
        if unit in _SECONDS_OF and unit != last:
            count = int(total) // _SECONDS_OF[unit]
            written += str(count).zfill(len(text)) if unit != kind else f"{count % 60:02}"
        elif kind == "0" and last != "0":
            written += f"{total % 1:.{parts}f}"[2:]
        elif kind != "0" and unit not in _SECONDS_OF:
            written += text
        last = unit
    return written


def _date(kinds: list[str], value: Decimal) -> str:
    """Show a day, a time of the day, or both, as ISO writes them."""
    if not 0 <= value <= _LAST_DAY:
        return _plain(value)
    start = datetime(1899, 12, 30 if value >= 60 else 31)  # day 60 of 1900, 29 February, never was
    moment = start + timedelta(seconds=int((value * 86_400).quantize(Decimal(1), context=_EXACT)))
    if {*"hs"}.isdisjoint(kinds):
        return moment.date().isoformat()
    time = moment.time().isoformat("seconds" if "s" in kinds else "minutes")
    if {*"yd"}.isdisjoint(kinds):
        return time
    return f"{moment.date().isoformat()} {time}".removesuffix(" 00:00:00").removesuffix(" 00:00")
