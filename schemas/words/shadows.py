"""What is found of a text besides its plain words: the parts of camel-case words, the joined forms of words with
underscores and of numbers with separators, and names with the signs that belong to them.

Signs tell `C#` from C, `.NET` from net and `--all` from all. Marks of Markdown and of sentences make no names: a sign
stands before or behind its word without a space, and not on both sides of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from schemas.words.splitting import RUN, without_accents

SIGNED = "="
"""What a name with its signs begins with among the words of an index, which no plain word has."""

_SIMPLE = re.compile(r"[^\W_]+")
_WORD = re.compile(r"\w+")
# A seam is a capital after a small letter or digit, the last of several capitals before a small letter, or an inner
# underscore. The expression begins with one set of characters because the search then skips ordinary prose fast.
_SEAM = re.compile(r"[A-Z_](?:(?<=[a-z\d][A-Z])|(?<=[A-Z]{2})(?=[a-z])|(?<=[^\W_]_)(?=[^\W_]))")
_HUMP = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
# Of exactly three digits each, with one separator: 1.2.3 and 2026.04.17 are none. Nothing of the kind is before them.
_GROUPED = re.compile(r"[1-9](?<![0-9].)(?<![0-9][.,].)[0-9]{0,2}+(?:[.,'’ ][0-9]{3}(?![0-9]))++")
_BETWEEN = re.compile(r"[.,'’ ]")
_NAME = rf"{RUN}(?:[_-]+{RUN})*+"
# What a name may stand behind, which is the beginning of a text, too.
_BEFORE = " \t\n\"'`([{,|/>"
_LEADING = re.compile(rf"[#.$@\\-](?<![^{re.escape(_BEFORE)}].)[{{-]?+(?=[^\W\d]){_NAME}")
_TAG = re.compile(rf"<(?<![^\W_].)/?+{_NAME}>")
_TRAILING = re.compile(r"(?:\+\+|[#+*])(?<=[^\W_].)(?<!\+\+)(?![\w#+*=>-])|\+\+(?<=[^\W_]..)(?![\w#+*=-])")
_EMPHASIS = re.compile(r"\*(?<![\w*\\].)\*{0,2}+(?=[^\s*])([^*\n]++)(?<=\S)\*{1,3}+(?!\*)")
_OPERATOR = re.compile(r"(?:&&|\|\||\?\?|:=|===|!==|=>|->|<=>|\|>|::)(?![^\s\"'`),.;?])")
_BEFORE_OPERATOR = frozenset(" \t\n\"'`(")
# Most texts have none of these, and are read faster without.
_MAY_LEAD = (*"#$@\\", *(before + sign for before in _BEFORE for sign in ".-"))
_MAY_TRAIL = "#+*"
_TRAILING_DASH = re.compile(r"-(?<=[^\W\d_].)(?<![^\W_]..)(?![\w>-])")
LONGEST_SHORT_OPTION = 3
_LONGEST = 64
"""The most letters of a word whose sign stands behind it."""


def joined_and_signed(text: str) -> set[str]:
    """Return the numbers of a text in the form NFKC that are written in groups of digits, joined, and its names with
    signs, folded as words are by `split`."""
    return {*(joined for _, joined in grouped_numbers(text)), *signed_names(text)}


def identifier_words(text: str) -> str:
    """Return the parts of camel-case words and joined underscore words of a text, in order."""
    shadow: list[str] = []
    seen_to = 0
    while seam := _SEAM.search(text, seen_to):
        start = seam.start()
        while start > seen_to and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        word = _WORD.match(text, start)
        assert word is not None
        simple = _SIMPLE.findall(word.group())
        for part in simple:
            parts = humps(part)
            if len(parts) > 1:
                shadow.extend(parts)
        if len(simple) > 1:
            shadow.append("".join(simple))
        seen_to = word.end()
    return " ".join(shadow)


def humps(word: str) -> list[str]:
    """Return the parts of a camel-case word, or the word alone."""
    return _HUMP.findall(word) if _SEAM.search(word) else [word]


def grouped_numbers(text: str) -> list[tuple[str, str]]:
    """Return the numbers that are written in groups of three digits, as they are written and joined."""
    found = [each[0] for each in _GROUPED.finditer(text)]
    return [(written, _joined(written)) for written in found if len(set(_BETWEEN.findall(written))) == 1]


def with_joined_numbers(text: str) -> str:
    """Return a text with such numbers joined where they can be nothing else: `1 250` may be two, `1.250` a fraction,
    and four with dots between are an address."""
    return _GROUPED.sub(lambda found: _joined(found[0]) if _is_one_number(found[0]) else found[0], text)


def _joined(written: str) -> str:
    return _BETWEEN.sub("", written)


def _is_one_number(written: str) -> bool:
    between = "".join(_BETWEEN.findall(written))
    return len(set(between)) == 1 and between[0] != " " and (between[0] != "." or len(between) == 2)


def signed_names(text: str) -> list[str]:
    """Return the names of a text that have signs, each behind `SIGNED`, and operators that stand alone."""
    if "*" in text:
        text = _EMPHASIS.sub(r" \1 ", text)
    found = []
    if text.startswith((".", "-")) or _has_any(text, _MAY_LEAD):
        found += [each[0].replace("{", "") for each in _LEADING.finditer(text) if _is_name(each)]
    if "<" in text:
        found += [each[0].replace("/", "") for each in _TAG.finditer(text)]
    if _has_any(text, _MAY_TRAIL):
        words = [(_word_before(text, each.start()), each[0]) for each in _TRAILING.finditer(text)]
        found += [word + sign for word, sign in words if any(map(str.isalpha, word))]
    if "-" in text:
        found += [text[each.start() - 1 : each.end()] for each in _TRAILING_DASH.finditer(text)]
    operators = _OPERATOR.finditer(text)
    found += [each[0] for each in operators if not each.start() or text[each.start() - 1] in _BEFORE_OPERATOR]
    return [SIGNED + without_accents(name.casefold()) for name in found]


def _is_name(found: re.Match[str]) -> bool:
    """Return whether it is not the place in a page of a link, a method that is called, a word behind a dash of a
    sentence, or a single letter behind a full stop or a backslash."""
    name = found[0]
    if name[0] == "#":
        return _beside(found, -1) not in ("(", "/")
    if name[0] == "-":
        return name[1] == "-" or len(name) <= LONGEST_SHORT_OPTION
    return name[0] not in ".\\" or (len(name) > 2 and not (name[0] == "." and _beside(found, 1) == "("))


def _beside(found: re.Match[str], step: int) -> str:
    place = found.start() - 1 if step < 0 else found.end()
    return found.string[place] if 0 <= place < len(found.string) else ""


def _has_any(text: str, parts: Iterable[str]) -> bool:
    return any(part in text for part in parts)


def _word_before(text: str, end: int) -> str:
    start = end
    while start > max(0, end - _LONGEST) and text[start - 1].isalnum():
        start -= 1
    return text[start:end]
