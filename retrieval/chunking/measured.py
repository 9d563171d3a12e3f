"""A text with its tokens located once: how many tokens a span has, and how far a number of tokens reaches."""

from __future__ import annotations

import re
from bisect import bisect_left

from retrieval.chunking.tokens import TokenCounter

MIN_MAX_TOKENS = 16  # of a chunk: below this the tokens of a single character would matter

_INK = re.compile(r"\S")


class MeasuredText:
    """Measures spans by where tokens start, which is nearly exact; `count` asks the tokenizer and is exact."""

    def __init__(self, text: str, tokens: TokenCounter) -> None:
        self.text = text
        self.tokens = tokens
        self.added_tokens = tokens.added()
        self._starts = tokens.starts(text)

    def count(self, start: int, end: int, *, above: str = "") -> int:
        """Count the tokens of `chunk_text`, including those that the model adds."""
        return self.tokens.count(self.chunk_text(start, end, above=above))

    def chunk_text(self, start: int, end: int, *, above: str = "") -> str:
        """Return the text of a chunk: `above`, and the text from `start` to `end` without white space at its end."""
        return above + self.text[start:end].rstrip()

    def count_above(self, above: str) -> int:
        """Count the tokens that a chunk has before its own text, including those that the model adds."""
        return self.tokens.count(above) if above else self.added_tokens

    def about(self, start: int, end: int) -> int:
        """Return about how many tokens there are from `start` to `end`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def reach(self, start: int, tokens: int) -> int:
        """Return the place about `tokens` tokens after `start`, or before it when `tokens` is negative."""
        index = bisect_left(self._starts, start) + tokens
        return self._starts[max(index, 0)] if index < len(self._starts) else len(self.text)

    def ink(self, start: int, end: int | None = None) -> int | None:
        """Return the start of the first line, or part of one, from `start` on that is not blank.

        None when the text is blank up to `end`.
        """
        found = _INK.search(self.text, start, len(self.text) if end is None else end)
        return max(start, self.text.rfind("\n", start, found.start()) + 1) if found else None

    def ink_end(self, start: int, end: int) -> int:
        """Return where the text from `start` to `end` ends without its trailing white space."""
        return start + len(self.text[start:end].rstrip())
