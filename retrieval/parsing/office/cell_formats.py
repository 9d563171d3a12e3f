"""Numbers of Excel as its formats show them: `0.475` with `0.0%` is 47.5%, `501` with `00000` is 00501; dates in ISO.

Separators are those of English: a file does not say in which country it is read. Where a format cannot be followed, the
number is shown as it is.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache, partial
from itertools import takewhile, zip_longest

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
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)(-?\d{1,15}(?:\.\d{1,15})?)")
_COMPARED: dict[str, Callable[[Decimal, Decimal], bool]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt},
    **{">=": operator.ge, "=": operator.eq, "<>": operator.ne},
}
_PLACES = frozenset("0#?")
_SECONDS_OF = {"h": 3600, "m": 60, "s": 1}
_EXACT = Context(prec=700, rounding=ROUND_HALF_UP)
_LAST_DAY = 2_958_465
_DAYS_TO_1904 = 1462


@dataclass(slots=True)
class _Section:
    """A part of a format, for some of the numbers.

    `tokens` are (kind, text). The kind is the sign itself, "" for literals, "E" for an exponent, and "[h]" for a unit
    of which the total is shown.
    """

    tokens: list[tuple[str, str]] = field(default_factory=list)
    condition: Callable[[Decimal], bool] | None = None
    is_negative: bool = False  # its numbers are shown without their sign
    kinds: frozenset[str] = frozenset()
    show: Callable[[Decimal], str] = str

    @property
    def is_date(self) -> bool:
        return isinstance(self.show, partial) and self.show.func is _date

    def sign(self, value: Decimal) -> str:
        return "-" if value < 0 and not self.is_negative else ""


@lru_cache(maxsize=1 << 16)
def shown(number: str, code: str, *, since_1904: bool = False) -> str:
    """Return a number, as a file spells it, in the format of a code; what is no number is returned as it is."""
    try:
        text = f"{float(number):.15g}"  # Excel's own precision
        if code == GENERAL and "e" not in text:
            return text
        value = Decimal(text)
        for section in _sections(code)[:3]:
            if section.condition is None or section.condition(value):
                return section.show(value + _DAYS_TO_1904 if since_1904 and section.is_date else value).strip()
        return _plain(value)
    except (ValueError, InvalidOperation, OverflowError):
        return number


def shown_text(text: str, code: str) -> str:
    """Return a text in the format of a code, whose last part may set words around texts."""
    sections = _sections(code)
    section = sections[3] if len(sections) > 3 else sections[0]
    return _around(section, text) if "@" in section.kinds else text


@lru_cache(maxsize=4096)
def _sections(code: str) -> Sequence[_Section]:
    sections = [_Section()]
    for found in _TOKEN.finditer(code if len(code) <= _MOST_CHARACTERS else GENERAL):
        quoted, escaped, bracket, general, exponent, other = found.groups()
        tokens = sections[-1].tokens
        if other == ";":
            sections.append(_Section())
        elif bracket is not None:
            _add_bracket(sections[-1], bracket)
        elif general:
            tokens.append(("@", ""))
        elif exponent:
            tokens.append(("E", exponent))
        elif other:
            tokens.append((other.lower() if other in "YMDHS" else other, other))
        elif found[0].startswith("_"):
            tokens.append(("", " "))
        else:
            tokens.append(("", quoted or escaped or ""))
    for section in sections:
        section.kinds = frozenset(kind for kind, _ in section.tokens)
        section.show = _manner(section)
    if len(sections) > 1 and not any(each.condition for each in sections):
        sections[0].condition = partial(_meets, ">=" if len(sections) == 2 else ">", Decimal(0))
        sections[1].condition = partial(_meets, "<", Decimal(0))
        sections[1].is_negative = True
    return tuple(sections)


def _add_bracket(section: _Section, inner: str) -> None:
    """Take what stands in brackets: a currency, a condition, or a unit whose total is shown. Colours are left out."""
    unit = inner[:1].lower()
    if unit == "$":
        section.tokens.append(("", inner[1:].partition("-")[0]))
    elif found := _CONDITION.fullmatch(inner):
        section.condition = partial(_meets, found[1], Decimal(found[2]))
        section.is_negative = found[1].startswith("<") and Decimal(found[2]) <= 0
    elif unit in _SECONDS_OF and not inner.lower().strip(unit):
        section.tokens.append((f"[{unit}]", inner))


def _meets(sign: str, limit: Decimal, value: Decimal) -> bool:
    return _COMPARED[sign](value, limit)


def _manner(section: _Section) -> Callable[[Decimal], str]:
    """Return how the numbers of a section are shown."""
    kinds = [kind for kind, _ in section.tokens]
    first = next((at for at, kind in enumerate(kinds) if kind in _PLACES), None)
    if any(kind.startswith("[") for kind in kinds):
        return partial(_elapsed, section)
    if not section.kinds.isdisjoint("ymdhs") and (first is None or "s" in kinds[:first]):  # ss.0 has digits, too
        return partial(_elapsed if section.kinds.isdisjoint("ydh") and "s" in kinds else _date, section)
    if first is None:
        return lambda value: _around(section, section.sign(value) + _plain(abs(value)))
    return partial(_fraction, section) if "/" in kinds else _number(section)


def _around(section: _Section, text: str) -> str:
    return "".join(text if kind == "@" else literal for kind, literal in section.tokens)


def _plain(value: Decimal) -> str:
    return f"{value:f}" if not value or -10 <= value.adjusted() <= 20 else f"{value:E}"


def _number(section: _Section) -> Callable[[Decimal], str]:
    """Show numbers by their places: those before the point, after it, and of an exponent."""
    kinds = [kind for kind, _ in section.tokens]
    end = kinds.index("E") if "E" in kinds else len(kinds)
    point = kinds.index(".", 0, end) if "." in kinds[:end] else end
    last = max(at for at in range(end) if kinds[at] in _PLACES)
    thousands = sum(1 for _ in takewhile(",".__eq__, kinds[last + 1 :]))
    scale = 2 * kinds.count("%") - 3 * thousands
    exact = Decimal(1).scaleb(-sum(kind in _PLACES for kind in kinds[point:end]))
    whole, parts = _whole(section.tokens[:point]), _parts(section.tokens[point + 1 : end])
    step = max(sum(kind in _PLACES for kind in kinds[:point]), 1)
    exponent, plus = _whole(section.tokens[end + 1 :]), section.tokens[end][1].strip("-") if end < len(kinds) else ""

    def show(value: Decimal) -> str:
        amount = abs(value).scaleb(scale, _EXACT) if scale else abs(value)
        power = amount.adjusted() // step * step if amount and end < len(kinds) else 0
        rounded = amount.scaleb(-power, _EXACT).quantize(exact, context=_EXACT)
        if power and rounded.adjusted() >= step:  # 9.99 is 1.0E+1
            power += step
            rounded = amount.scaleb(-power, _EXACT).quantize(exact, context=_EXACT)
        before, _, after = f"{rounded:f}".partition(".")
        text = (section.sign(value) if rounded else "") + whole(before) + parts(after)
        return f"{text}E{'-' if power < 0 else plus}{exponent(str(abs(power)))}" if end < len(kinds) else text

    return show


def _whole(tokens: list[tuple[str, str]]) -> Callable[[str], str]:
    """Set digits into places, from the right; the first place takes what is left."""
    places = [at for at, (kind, _) in enumerate(tokens) if kind in _PLACES]
    least = next((len(places) - at for at, place in enumerate(places) if tokens[place][0] == "0"), 0)
    literals = ["" if kind == "," or kind in _PLACES else text for kind, text in tokens]
    groups = any(kind == "," for kind, _ in tokens[places[0] : places[-1]]) if places else False
    first, last = (places[0], places[-1]) if places else (len(tokens), len(tokens))
    before, within, after = "".join(literals[:first]), any(literals[first:last]), "".join(literals[last:])

    def write(digits: str) -> str:
        digits = digits.lstrip("0").zfill(least)
        if groups and len(digits) > 3:
            start = len(digits) % 3
            digits = ",".join(
                filter(None, (digits[:start], *(digits[at : at + 3] for at in range(start, len(digits), 3))))
            )
        if not within or groups:
            return f"{before}{digits}{after}" if places else before
        spread = [*[""] * (len(places) - len(digits)), *digits]
        more = len(spread) - len(places) + 1
        filled = dict(zip(places, ("".join(spread[:more]), *spread[more:]), strict=True))
        return "".join(filled.get(at, literal) for at, literal in enumerate(literals))

    return write


def _parts(tokens: list[tuple[str, str]]) -> Callable[[str], str]:
    """Write the digits behind the point, and the point where there are any."""
    places = [kind for kind, _ in tokens if kind in _PLACES]
    least = max((at + 1 for at, kind in enumerate(places) if kind == "0"), default=0)
    template = "".join("\0" if kind in _PLACES else "" if kind == "," else text for kind, text in tokens)
    pieces = template.split("\0")

    def write(digits: str) -> str:
        digits = digits[: max(least, len(digits.rstrip("0")))]
        text = "".join(f"{literal}{digit}" for literal, digit in zip_longest(pieces, digits, fillvalue=""))
        return f".{text}" if digits else text

    return write


def _fraction(section: _Section, value: Decimal) -> str:
    """Show a number as a fraction of two numbers, behind a whole one where the format has a place for it."""
    kinds = [kind for kind, _ in section.tokens]
    slash = kinds.index("/")
    below = "".join(takewhile("0123456789?#".__contains__, (kind for kind in kinds[slash + 1 :] if kind != " ")))
    above = slash - len(list(takewhile(_PLACES.__contains__, reversed(kinds[:slash]))))
    number = Fraction(abs(value))
    whole = 0 if _PLACES.isdisjoint(kinds[:above]) else int(number)
    if below.isdigit() and int(below):
        lower = int(below)
        upper = int((number - whole) * lower + Fraction(1, 2))
    else:
        upper, lower = (number - whole).limit_denominator(10 ** min(len(below) or 1, 4) - 1).as_integer_ratio()
    if upper == lower:
        whole, upper = whole + 1, 0
    sign = section.sign(value)
    return sign + (f"{whole} {upper}/{lower}" if whole and upper else f"{upper}/{lower}" if upper else str(whole))


def _elapsed(section: _Section, value: Decimal) -> str:
    """Show a time that has passed: 27:30. The first unit is not bounded where it stands in brackets."""
    parts = sum(kind == "0" for kind, _ in section.tokens)
    total = (abs(value) * 86_400).quantize(Decimal(1).scaleb(-parts), context=_EXACT)
    written, last = [section.sign(value)], ""
    for kind, text in section.tokens:
        unit = kind.strip("[]")
        if unit in _SECONDS_OF and unit != last:
            count = int(total) // _SECONDS_OF[unit]
            written.append(str(count if unit != kind else count % 60).zfill(len(text) if unit != kind else 2))
        elif kind == "0" and last != "0":
            written.append(f"{total % 1:.{parts}f}"[2:])
        elif kind != "0" and unit not in _SECONDS_OF:
            written.append(text)
        last = unit
    return "".join(written)


def _date(section: _Section, value: Decimal) -> str:
    """Show a day, a time of the day, or both, as ISO writes them."""
    has_time = not section.kinds.isdisjoint("hs")
    if not 0 <= value <= _LAST_DAY:
        return _plain(value)
    start = datetime(1899, 12, 30 if value >= 60 else 31)  # day 60 of 1900, 29 February, never was
    moment = start + timedelta(seconds=int((value * 86_400).quantize(Decimal(1), context=_EXACT)))
    if not has_time:
        return moment.date().isoformat()
    time = moment.time().isoformat("seconds" if "s" in section.kinds else "minutes")
    if section.kinds.isdisjoint("yd"):
        return time
    return f"{moment.date().isoformat()} {time}".removesuffix(" 00:00:00").removesuffix(" 00:00")
