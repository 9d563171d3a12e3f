"""Names of the files of an audit log, `audit-<day>-<number>.jsonl`: sorted as text they are in the order of time."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple, Self

_NAME = re.compile(r"audit-(\d{4}-\d{2}-\d{2})-(\d{4,9})\.jsonl")


class FileName(NamedTuple):
    """The day, in UTC, on which a file was begun, and its number among those of that day, from 1."""

    day: date
    number: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the name, None for a file that is not of an audit log."""
        found = _NAME.fullmatch(text)
        try:
            return None if found is None else cls(date.fromisoformat(found[1]), int(found[2]))
        except ValueError:
            return None

    def after(self, today: date) -> FileName:
        """Return the name of the next file. A day that is over does not come back, whatever the clock says."""
        return FileName(today, 1) if today > self.day else FileName(self.day, self.number + 1)

    def __str__(self) -> str:
        return f"audit-{self.day.isoformat()}-{self.number:04}.jsonl"


def files_in(folder: Path) -> list[FileName]:
    """Return the files of a log, oldest first; none when the folder is missing."""
    try:
        names = [each.name for each in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(found for name in names if (found := FileName.parse(name)) is not None)
