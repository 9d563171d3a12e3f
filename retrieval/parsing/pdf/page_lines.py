"""What a page of a PDF is made of: lines of text, and tables between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SAME_EDGE = 4.0  # points within which the columns of a table that goes on are those of the page before

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table on a page. rows: of all columns, a cell has its lines; edges: of columns, from the left; top: its upper
    edge, from the foot of the page."""

    rows: tuple[Row, ...]
    edges: tuple[float, ...]
    top: float
    has_bold_header: bool = False

    def goes_on_from(self, other: Table, header: Row) -> bool:
        """Return whether a table has the columns of another that has this header, and no other header."""
        same = len(self.edges) == len(other.edges) and all(
            abs(one - two) <= _SAME_EDGE for one, two in zip(self.edges, other.edges, strict=True)
        )
        return same and (self.rows[0] == header or not self.has_bold_header)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page, or a table, which has its words as text. size: of its letters; y: of their feet, from the foot
    of the page; x: where it begins, from the left. All in points. is_spread: it is bold, and its words are apart, as in
    the header of a table without lines."""

    text: str
    size: float
    bold: bool
    y: float
    x: float = 0.0
    table: Table | None = None
    is_spread: bool = False

    @property
    def top(self) -> float:
        """Return what stands for the height of its first line."""
        return self.table.top - self.size if self.table else self.y

    def texts(self) -> Iterator[str]:
        cells = (cell for row in self.table.rows for cell in row) if self.table else [self.text]
        return (text for cell in cells for text in cell.split("\n"))


@dataclass(slots=True)
class Page:
    """The lines of a page. is_scanned: it shows a picture of text. notes: remarks on the page."""

    number: int
    lines: list[Line]
    is_scanned: bool = False
    notes: list[str] = field(default_factory=list)


def leading(pages: Sequence[Page]) -> float:
    """Return the distance from line to line that is the most common."""
    distances: Counter[float] = Counter()
    for page in pages:
        for above, below in pairwise(page.lines):
            if 0 < above.y - below.top < 60:
                distances[round(above.y - below.top)] += 1
    return distances.most_common(1)[0][0] if distances else 12.0
