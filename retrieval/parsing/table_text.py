"""Tables of all kinds of files, written as Markdown: one way for merged labels, ticks, titles above tables, and cells
that hold several blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrieval.parsing.parsed import collapsed

TICKED, UNTICKED = "[x]", "[ ]"
"""A box of a form, whatever drew it."""


def one_line(blocks: Iterable[str]) -> str:
    """Return the blocks of a cell, such as paragraphs and items of a list, on one line: a row of Markdown is a line."""
    return " ".join(line for block in blocks if (line := collapsed(block)))


def fill_spans(rows: list[list[str]], spans: Iterable[tuple[int, int, int]]) -> None:
    """Let a label that was merged over rows stand in each of them.

    A span is (row, column, number of rows), from 0. Cells that have a text of their own keep it.
    """
    for row, column, count in spans:
        if row >= len(rows) or column >= len(rows[row]):
            continue
        for below in rows[row + 1 : row + count]:
            below += [""] * (column + 1 - len(below))
            below[column] = below[column] or rows[row][column]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table whose first row is its header; "" without cells. Short rows are filled up."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    filled = ([*row, *[""] * (width - len(row))] for row in rows)
    lines = ["| " + " | ".join(collapsed(cell).replace("|", "\\|") for cell in row) + " |" for row in filled]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])
