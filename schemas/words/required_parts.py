"""What a regular expression requires, letter for letter, of the texts that it matches."""

from __future__ import annotations

import re

_GROUP = re.compile(r"\(\?(?::|P?<\w+>)|\((?!\?)")
_FLAGS = re.compile(r"\(\?[sm]+\)")
"""Flags that change no letter."""
_QUANTIFIERS = re.compile(r"(?:[*+?]|\{\s*\d+\s*(?:,\s*\d*\s*)?\})++")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^][\\])*+\]", re.DOTALL)
"""A class without others in it, but those that are named between colons."""
_ONE_PLACE = frozenset("dDsSwWbBAzafnrtv")
"""The letters that stand for something else behind a backslash, and need no more letters for that."""
_EDGES = frozenset("<>")
"""What stands for the edge of a word behind a backslash."""


def required_parts(pattern: str) -> list[str]:
    """Return texts that are in every text in which the expression matches, which must be one.

    None are returned for expressions that are not plainly read: nothing is ever returned that is not required.
    """
    parts: list[str] = []
    part = ""
    depth = place = 0
    while place < len(pattern):
        letter = pattern[place]
        literal, width = "", 1
        if letter == "\\":
            escaped, behind = pattern[place + 1 : place + 2], pattern[place + 2 : place + 3]
            width = 2
            if not escaped.isascii() or (escaped.isalnum() and (escaped not in _ONE_PLACE or behind == "{")):
                return []
            literal = "" if escaped.isalnum() or escaped in _EDGES else escaped
        elif letter == "(":
            opened = _GROUP.match(pattern, place)
            if opened is not None:
                depth, width = depth + 1, len(opened[0])
            elif flags := _FLAGS.match(pattern, place):
                width = len(flags[0])
            else:
                return []
        elif letter == ")":
            depth -= 1
        elif letter == "[":
            closed = _CLASS.match(pattern, place)
            if closed is None:
                return []
            width = len(closed[0])
        elif letter == "|":
            if depth == 0:
                return []
        elif letter in "*+?{":
            repeated = _QUANTIFIERS.match(pattern, place)
            if repeated is None:
                return []
            width = len(repeated[0])
            if repeated[0] not in ("+", "+?"):
                part = part[:-1]  # the letter before it may be missing
        elif letter not in ".^$":
            literal = letter
        if literal and depth == 0:
            part += literal
        else:
            parts.append(part)
            part = ""
        place += width
    parts.append(part)
    return [each for each in parts if each]
