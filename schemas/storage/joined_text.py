"""Chunks of one document as the running text that they were cut from."""

from __future__ import annotations

import re
from collections.abc import Sequence

GAP = "[…]"
"""The line that stands for chunks that are left out."""
LEAST_OVERLAP = 20
"""The least characters that a chunk repeats of the one before it. Fewer are equal by chance."""
MOST_OVERLAP = 8_000

_DASHES = re.compile(r":?-+:?")


def joined_text(texts: Sequence[str], places: Sequence[int]) -> str:
    """Join chunks in order; `places` are their numbers in the document.

    What a chunk repeats of the one before it (the overlap of windows, the header of a table that goes on) is left out.
    Between chunks that are not neighbours stands a line `[…]`.
    """
    joined: list[str] = []
    for number, text in enumerate(texts):
        if not number:
            joined.append(text)
            continue
        if places[number] != places[number - 1] + 1:
            joined.append(f"\n\n{GAP}\n\n{text}")
            continue
        before = texts[number - 1]
        if overlap := _overlap(before, text):
            joined.append(text[overlap:])
        elif header := _repeated_header(before, text):
            joined.append(f"\n{text[header:]}")
        else:
            joined.append(f"\n\n{text}")
    return "".join(joined)


def _overlap(before: str, text: str) -> int:
    """Return how many characters at the end of `before` the text begins with, 0 when they may be equal by chance."""
    start = max(0, len(before) - min(len(text), MOST_OVERLAP)) - 1
    while (start := before.find(text[:LEAST_OVERLAP], start + 1)) >= 0 and len(before) - start >= LEAST_OVERLAP:
        if text.startswith(before[start:]) and not (start and before[start - 1].isalnum() and text[0].isalnum()):
            return len(before) - start
    return 0


def _repeated_header(before: str, text: str) -> int:
    """Return the length of the table's header that the text repeats, 0 when it repeats none.

    The table that ends `before` has the same header: its row of names and the row of dashes below it.
    """
    names, _, rest = text.partition("\n")
    dashes, _, rows = rest.partition("\n")
    cells = dashes.strip().strip("|").split("|")
    if "|" not in names or not rows or not all(_DASHES.fullmatch(cell.strip()) for cell in cells):
        return 0
    table = before.rpartition("\n\n")[2]
    return len(names) + len(dashes) + 2 if table.startswith(f"{names}\n{dashes}\n") else 0
