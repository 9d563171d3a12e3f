"""Sheets of spreadsheets of any kind: what of their cells is shown, and what is said of the rest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from retrieval.parsing.parsed import (
    TOO_LARGE,
    MarkdownText,
    Parsed,
    UnreadableError,
    heading,
    listed,
    losses,
    sensible_title,
)
from retrieval.parsing.table_text import fill_spans, sheet_blocks

_MOST_COLUMNS = 16_384
_MOST_CHARACTERS = 256 * 1024 * 1024
_MOST_LABELLED = 1_000  # rows in which a label stands that is merged over them


@dataclass(slots=True)
class Sheet:
    """A sheet as a file has it.

    `rows` are texts by the numbers of rows and columns, both from 1, without empty ones. `labels` are merged cells:
    (row, column, last row, last column). `not_calculated` are the places of formulas without a value.
    """

    name: str
    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    labels: list[tuple[int, int, int, int]] = field(default_factory=list)
    hidden_rows: set[int] = field(default_factory=set)
    not_calculated: list[str] = field(default_factory=list)
    _hidden_columns: bytearray = field(default_factory=lambda: bytearray(_MOST_COLUMNS + 1))

    def hide_columns(self, first: int, last: int) -> None:
        last = min(last, _MOST_COLUMNS)
        self._hidden_columns[first : last + 1] = b"\1" * (last + 1 - first)

    def shown(self) -> tuple[list[list[str]], int, int]:
        """Return the rows that are shown, an empty one where there are any between others, and how many rows and
        columns with a text are hidden."""
        self._label_groups()
        numbers = sorted(self.rows)
        used = sorted(set().union(*self.rows.values()))
        position = {column: at for at, column in enumerate(used)}
        rows = []
        for number in numbers:
            cells = self.rows[number]
            row = [""] * (position[max(cells)] + 1)
            for column, text in cells.items():
                row[position[column]] = text
            rows.append(row)
        fill_spans(rows, self._spans(numbers, position))
        hidden = {at for column, at in position.items() if self._hidden_columns[column : column + 1] == b"\1"}
        if hidden:
            rows = [[cell for at, cell in enumerate(row) if at not in hidden] for row in rows]
        visible, last = [], 0
        by_number = dict(zip(numbers, rows, strict=True))
        for number in sorted(self.hidden_rows.union(numbers)):
            if number not in self.hidden_rows:
                visible += [by_number[number]] if last == number - 1 else [[], by_number[number]]
                last = number
            elif last == number - 1:
                last = number
        return visible, len(self.hidden_rows.intersection(numbers)), len(hidden)

    def _label_groups(self) -> None:
        """Let the labels of groups of columns, in the first row of a table, stand in its header below: "2024 Q1"."""
        done = (0, 0)
        for top, left, bottom, right in sorted(self.labels):
            below, row = self.rows.get(top + 1, {}), self.rows.get(top, {})
            is_first = len(row) > 1 and len(self.rows.get(top - 1, ())) < 2
            if is_first and top == bottom and left in row and (top, left) > done:
                for column in range(left, min(right, _MOST_COLUMNS) + 1):
                    if right > left and column in below:
                        below[column] = f"{row[left]} {below[column]}"
                done = (top, right)

    def _spans(self, numbers: Sequence[int], position: dict[int, int]) -> list[tuple[int, int, int]]:
        """Return the merged labels by the places of their rows and columns among those with a text."""
        places = {number: at for at, number in enumerate(numbers)}
        spans, filled = [], dict.fromkeys(position, 0)
        for top, column, bottom, _ in sorted(self.labels):
            if top in places and column in self.rows[top] and top > filled[column]:
                count = bisect_right(numbers, min(bottom, top + _MOST_LABELLED)) - places[top]
                spans.append((places[top], position[column], count))
                filled[column] = bottom
        return spans


class Spreadsheet:
    """The text of a spreadsheet, which grows by its sheets."""

    def __init__(self) -> None:
        self.hidden: list[str] = []  # sheets
        self.comments = 0
        self._document = MarkdownText()
        self._cut: list[str] = []
        self._not_calculated: list[str] = []

    def add(self, sheet: Sheet, *more: str) -> None:
        """Add a sheet, and what stands on it besides its cells."""
        rows, hidden_rows, hidden_columns = sheet.shown()
        if sum(len(cell) for row in rows for cell in row) > _MOST_CHARACTERS:  # cells may share one long text
            raise UnreadableError(f"makes more than {_MOST_CHARACTERS // 2**20} MB of text", TOO_LARGE)
        blocks = [*sheet_blocks(rows), *more]
        if blocks:
            self._document.mark(sheet=sheet.name)
            self._document.add(heading(1, sheet.name), *blocks)
        counts = [(hidden_rows, "row"), (hidden_columns, "column")]
        said = [f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count]
        if said:
            self._cut.append(f"{sheet.name} ({' and '.join(said)})")
        self._not_calculated += [f"{sheet.name}!{place}" for place in sheet.not_calculated]

    def parsed(self, title: str | None, metadata: dict[str, Any]) -> Parsed:
        first = self._not_calculated[:1]
        warnings = losses(
            ("Hidden sheets are left out: {}", listed(self.hidden)),
            ("Hidden rows and columns are left out: {}", listed(self._cut)),
            (f"Formulas without a stored value: {len(self._not_calculated)}, first in {{}}", "".join(first)),
            ("Comments are left out: {}", self.comments),
        )
        return self._document.parsed(sensible_title(title or ""), metadata, warnings=warnings)
