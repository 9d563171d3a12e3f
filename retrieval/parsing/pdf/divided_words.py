"""Words divided by the end of a line: whether the hyphen there was the typesetter's or is the word's own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

DIVIDED = "\xad"
"""What ends a line instead of the hyphen after a letter."""

_ENDS_DIVIDED = re.compile(r"\w[-\u2010\xad]$")
_TOKEN = re.compile(r"\w+(?:[-\u2010]\w+)*")
_FIRST_WORD = re.compile(r"\S+")
_SEGMENTS = re.compile(r"[\w\u2010-]+")
_OWN_HYPHEN = re.compile(r"[-\u2010/@\d_]|\w[.:]\w")  # in what stands before: a compound, a number, an address
_SUSPENDED = frozenset(["and", "or", "to", "und", "oder", "bzw", "et", "ou"])  # pre- and postprocessing
_COMPOUNDING = frozenset(["well", "self", "non"])
_LETTERS_OF_A_WORD = 5


class DividedWords:
    """What the words of a document say of those that its lines divide."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._known: set[str] = set()
        texts = list(lines)
        if not any(is_divided(text) for text in texts):
            return
        was_divided = False
        for text in texts:
            tokens = _TOKEN.findall(text.casefold())
            begins, was_divided = was_divided, is_divided(text)
            for token in tokens[begins : len(tokens) - was_divided]:
                parts = token.replace("\u2010", "-").split("-")
                self._known.update(parts, map("-".join, pairwise(parts)), [token])

    def joined(self, lines: Sequence[str], separator: str = "\n") -> str:
        """Return lines as one text. The rest of a divided word goes up to its beginning, what follows stays below."""
        done = [lines[0]] if lines else []
        for line in lines[1:]:
            if is_divided(done[-1]):
                done[-1], line = self.continued(done[-1], line)
            if line:
                done.append(line)
        return separator.join(done)

    def continued(self, above: str, below: str) -> tuple[str, str]:
        """Return a line that ends with a divided word, with the rest of it, and what is left of the line below."""
        start, rest = above[:-1], _FIRST_WORD.match(below)
        if not rest or not rest[0][0].isalnum() or rest[0].rstrip(".,").casefold() in _SUSPENDED:
            return f"{start}-", below
        hyphen = "-" if self._has_hyphen(start.rsplit(maxsplit=1)[-1], rest[0]) else ""
        return f"{start}{hyphen}{rest[0]}", below[rest.end() :].lstrip()

    def _has_hyphen(self, first: str, second: str) -> bool:
        """Return whether a word has a hyphen between two parts, as far as that can be known without a dictionary."""
        start, end = _SEGMENTS.findall(first.casefold())[-1], _SEGMENTS.findall(second.casefold())[0]
        left, right = _TOKEN.findall(start)[-1].split("-")[-1], _TOKEN.findall(end)[0].split("-")[0]
        is_compound = {f"{start}-{end}", f"{left}-{right}"} & self._known
        is_word = {f"{start}{end}", f"{left}{right}"} & self._known
        if bool(is_compound) != bool(is_word):
            return bool(is_compound)
        if second[0].isupper() or second[0].isdigit() or _OWN_HYPHEN.search(first):
            return True
        are_words = min(len(left), len(right)) >= _LETTERS_OF_A_WORD and {left, right} <= self._known
        return not is_word and (are_words or left in _COMPOUNDING)


def is_divided(text: str) -> bool:
    """Return whether a line ends within a word."""
    return bool(_ENDS_DIVIDED.search(text[-2:]))
