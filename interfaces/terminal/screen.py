"""The screen of commands that show answers: text that cannot command the terminal, lines, and tables.

On a terminal there are colours (unless NO_COLOR is set), links and columns; otherwise plain lines, and tables are rows
with tabs in between. What the encoding of the output does not have is a question mark.
"""

from __future__ import annotations

import io
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

# They change the order in which a line is shown.
_BIDIRECTIONAL = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
FAINT = Style(dim=True)
_PLAIN = Style()


def harmless(text: str) -> str:
    """Return a text without the characters by which it could command a terminal; line feeds and tabs stay."""
    text = text.replace("\r\n", "\n").expandtabs(4)
    return "".join(each for each in text if each == "\n" or not _commands(each))


def in_one_line(text: str) -> str:
    return " ".join(harmless(text).split())


def _commands(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDIRECTIONAL


class _Output(Console):
    """A console that leaves it to the command line how a closed pipe ends a command."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, as other writes do."""
        raise BrokenPipeError


class Screen:
    """Writes to standard output."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")
        self._console = _Output(file=sys.stdout, highlight=False, markup=False, emoji=False)

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    def show(self, line: Text | str = "", *, indent: str = "") -> None:
        """Write a text; on a terminal it is wrapped between words, each line behind `indent`."""
        text = Text(line) if isinstance(line, str) else line
        if not self.is_terminal:
            parts = text.split("\n", allow_blank=True)
        else:
            parts = text.wrap(self._console, max(self._console.width - len(indent), 1))
        for part in parts:
            part.rstrip()
            self._console.print(Text(indent if part else "") + part, soft_wrap=True)

    def show_faint(self, line: str, *, indent: str = "") -> None:
        """Write a line about the answer."""
        self.show(Text(in_one_line(line), FAINT), indent=indent)

    def write(self, piece: str, style: Style = _PLAIN) -> None:
        """Write a piece of an answer as it comes, without a line break."""
        self._console.print(Text(harmless(piece), style), soft_wrap=True, end="")
        self._console.file.flush()

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> None:
        """Write rows of cells, None as an empty one: aligned below a header on a terminal, those with numbers in
        `right` to the right; else separated by tabs, and without a header."""
        cells = [["" if cell is None else in_one_line(str(cell)) for cell in row] for row in rows]
        if not self.is_terminal:
            for row in cells:
                click.echo("\t".join(row))
            return
        widths = [max(map(cell_len, column)) for column in zip(header, *cells, strict=True)]
        self._console.print(_aligned(header, widths, right, Style(bold=True)), soft_wrap=True)
        for row in cells:
            self._console.print(_aligned(row, widths, right, Style()), soft_wrap=True)


def linked(text: str, source: str) -> Text:
    """Return a text that opens a source if it is the path of a file that is there, else the text alone."""
    path = Path(source)
    try:
        is_there = path.is_file()
    except (OSError, ValueError):
        is_there = False
    return Text(text, Style(bold=True, link=path.resolve().as_uri()) if is_there else Style(bold=True))


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[int], style: Style) -> Text:
    padded = [
        " " * (width - cell_len(cell)) + cell if number in right else set_cell_size(cell, width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return Text("  ".join(padded).rstrip(), style)
