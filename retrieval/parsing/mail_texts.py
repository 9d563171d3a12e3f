"""The texts in mails as people see them: paragraphs without the line ends of programs, without signatures' bytes, and
what an invitation says."""

from __future__ import annotations

import re

from retrieval.parsing.parsed import collapsed

_ARMOUR = re.compile(r"^-----(BEGIN|END) PGP (MESSAGE|SIGNATURE)-----[ \t]*$", re.MULTILINE)
_SIGNED = re.compile(r"^-----BEGIN PGP SIGNED MESSAGE-----\n(?:Hash: [^\n]*\n)?", re.MULTILINE)
_FOLDED = re.compile(r"\r?\n[ \t]")
_EVENTS = frozenset(("VEVENT", "VTODO", "VJOURNAL"))
_SAID = {"SUMMARY": "Summary", "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "LOCATION": "Location"}
_DESCRIPTION = {"DESCRIPTION": "Description"}
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE = re.compile(r";TZID=\"?([^;\":]+)", re.I)
_ESCAPED = re.compile(r"\\([\\;,nN])")


def without_armour(text: str) -> tuple[str, int]:
    """Return a text without what OpenPGP signed or encrypted it with, and how many encrypted parts that leaves out."""
    kept, encrypted, is_inside = [], 0, False
    pieces = _ARMOUR.split(_SIGNED.sub("", text))
    for at in range(0, len(pieces), 3):
        if not is_inside:
            kept.append(pieces[at])
        if at + 2 < len(pieces):
            is_inside = pieces[at + 1] == "BEGIN"
            encrypted += is_inside and pieces[at + 2] == "MESSAGE"
    return "".join(kept), encrypted


def unflowed(text: str, *, delete_space: bool) -> str:
    """Join the lines that a program divided: those that end with a space (RFC 3676)."""
    lines: list[list[str]] = []
    flowing: int | None = None  # how deep the quotation is whose last line goes on
    for line in text.split("\n"):
        content = line.lstrip(">")
        depth = len(line) - len(content)
        content = content.removeprefix(" ")
        goes_on = content.endswith(" ") and content != "-- "
        if flowing != depth or content == "-- ":
            lines.append(["> " * depth])
        lines[-1].append(content[:-1] if goes_on and delete_space else content)
        flowing = depth if goes_on else None
    return "\n".join("".join(parts) for parts in lines)


def invitation(text: str, *, with_description: bool) -> list[str]:
    """Return what the events of a calendar say, each as a block of lines."""
    said = _SAID | _DESCRIPTION if with_description else _SAID
    events: list[list[str]] = []
    inside = [""]
    for line in _FOLDED.sub("", text).splitlines():
        named, _, value = line.partition(":")
        name = named.partition(";")[0].strip().upper()
        if name == "BEGIN":
            inside.append(value.strip().upper())
            events += [[]] if inside[-1] in _EVENTS else []
        elif name == "END":
            del inside[max(len(inside) - 1, 1) :]
        elif inside[-1] in _EVENTS and name in said:
            shown = _time(named, value) if name in ("DTSTART", "DTEND", "DUE") else value
            shown = collapsed(_ESCAPED.sub(lambda found: " " if found[1] in "nN" else found[1], shown))
            events[-1] += [f"{said[name]}: {shown}"] if shown else []
    return ["\n".join(lines) for lines in events if lines]


def _time(named: str, value: str) -> str:
    found, zone = _TIME.search(value), _ZONE.search(named)
    if not found:
        return value
    year, month, day, hour, minute, is_universal = found.groups()
    told = f" {hour}:{minute}" if hour else ""
    return f"{year}-{month}-{day}{told}" + (f" {zone[1]}" if zone else " UTC" if is_universal else "")
