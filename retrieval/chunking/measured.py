"""A text whose tokens were placed once: what a span of it costs, and how far a number of tokens reaches."""

from __future__ import annotations

import re
from bisect import bisect_left

from retrieval.tokens import TokenCounter

MIN_MAX_TOKENS = 16  # of a chunk: below it the tokens of one character would matter

_INK = re.compile(r"\S")


class MeasuredText:
    """Spans are measured by the starts of tokens, which is nearly exact; `count` asks the tokenizer and is."""

    def __init__(self, text: str, tokens: TokenCounter) -> None:
        self.text = text
        self.tokens = tokens
        self.added_tokens = tokens.added()
        self._starts = tokens.starts(text)

    def count(self, start: int, end: int, *, header: str = "") -> int:
        """Tokens of `chunk_text`, those included that the model adds."""
        return self.tokens.count(self.chunk_text(start, end, header=header))

    def chunk_text(self, start: int, end: int, *, header: str = "") -> str:
        """The text of a chunk: `header` above what stands from `start` to `end`, no white space at the end."""
        body = self.text[start:end].rstrip()
        return f"{header}\n\n{body}" if header else body

    def about(self, start: int, end: int) -> int:
        """About how many tokens stand from `start` to `end`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def reach(self, start: int, tokens: int) -> int:
        """Where about `tokens` tokens from `start` end, or begin that end there when negative."""
        index = bisect_left(self._starts, start) + tokens
        return self._starts[max(index, 0)] if index < len(self._starts) else len(self.text)

    def ink(self, start: int, end: int | None = None) -> int | None:
        """The first line, or part of one, at or after `start` that is not blank; None when all is until `end`."""
        found = _INK.search(self.text, start, len(self.text) if end is None else end)
        return max(start, self.text.rfind("\n", start, found.start()) + 1) if found else None

    def ink_end(self, start: int, end: int) -> int:
        """Where what stands from `start` to `end` ends, without the white space behind it."""
        return start + len(self.text[start:end].rstrip())
