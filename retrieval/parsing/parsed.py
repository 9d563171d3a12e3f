"""What a parser gives: Markdown with what belongs to it, or the reason why there is none.

Text of a document is never taken for markup of a block.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import InvalidInputError

UNSUPPORTED_KIND = "unsupported_kind"
ENCRYPTED = "encrypted"
TOO_LARGE = "too_large"
TOO_SLOW = "too_slow"
TOO_MUCH_MEMORY = "too_much_memory"
UNREADABLE = "unreadable"
EMPTY = "empty"

DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, EOFError, ValueError)
"""What zipfile raises: NotImplementedError, a RuntimeError, is its word for a compression that it does not know."""

_MOST_TAGS = 100
_NAME_CHARACTERS = 100
_SEPARATORS = re.compile(r"[,;]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?![A-Za-z])")
_SURROGATES = re.compile(r"[\ud800-\udfff]")

# What would begin a heading, a fence, a block of HTML or front matter, or underline a heading. The characters that
# Markdown only styles with are left as they are: words are searched for, and read by models.
_BLOCK_MARKUP = re.compile(
    r"^( {0,3})(?=#{1,6}(?:[ \t]|$)|```|~~~|=+[ \t]*$|-+[ \t]*$|<[!/?A-Za-z]|\+\+\+[ \t]*$|(?:[*_-][ \t]*){3,}$)",
    re.MULTILINE,
)
_INDENTED = re.compile(r"^(?: {4,}|\t)[ \t]*", re.MULTILINE)
_RAISED_NUMBER = re.compile(r"[-+\u2212](?:\d|\Z)|\d")
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
# Titles that programs write instead of one: the name of a file, of themselves, or of what a file is.
_NO_TITLE = re.compile(
    r"(?:un)?titled?|no title|unbenannt|ohne titel|sans titre|microsoft (?:word|powerpoint|excel)\b.*|"
    r".*\.(?:docx?|docm|dotx?|pptx?|pptm|ppsx?|xlsx?|xlsm|od[tps]|pdf|tex|dvi|indd|qxd|ps|rtf|html?|txt|csv)|"
    r"(?:(?:new|microsoft|word|powerpoint|excel) )*(?:document|dokument|presentation|präsentation)[ _-]?\d*|"
    r"(?:click|type|enter) .*|\[.*\]|document title|[^\s_]*_\S*|\(?anonymous\)?|\W*|https?://\S+|file:\S+",
    re.I,
)
_NO_AUTHOR = re.compile(r"python-docx|openpyxl|\(?(?:anonymous|unknown|unspecified)\)?", re.I)  # of programs
_OF_PROGRAMS = re.compile(r"Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - ", re.I)
_ENOUGH_LETTERS = 3  # a title has words
_DIGITS_OF_A_NUMBER = 4  # in a single word: of a file or an order


class UnreadableError(InvalidInputError):
    """A file gives no text. `code` is one of those above; the message is one line and names no path."""

    def __init__(self, message: str, code: str = UNREADABLE) -> None:
        super().__init__(message, code=code)


@dataclass(slots=True)
class Parsed:
    """The text of a file, which is Markdown for every kind with structure.

    `metadata` is what the file says of itself: author, tags, language, front matter. `marks` are (line from 1, what
    holds from there on), ascending: `{"page": 3}`, `{"sheet": "Q1"}` or `{"slide": 2}`. `warnings` are sentences about
    what was left out. `scanned` are the pages whose text, but for a little, is in pictures.
    """

    text: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    marks: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    pages: int | None = None
    warnings: list[str] = field(default_factory=list)
    scanned: list[int] = field(default_factory=list)


def told(author: str = "", tags: Any = (), language: str = "") -> dict[str, Any]:
    """Return as metadata what a file says of itself."""
    author = "" if _NO_AUTHOR.fullmatch(collapsed(author)) else collapsed(author)
    found = {"author": author, "tags": tags_of(tags)[:_MOST_TAGS], "language": language_of(language)}
    return {name: value for name, value in found.items() if value}


def tags_of(value: Any) -> list[str]:
    """Return tags, which may also be written as one text, with commas or semicolons between them."""
    if isinstance(value, str):
        value = _SEPARATORS.split(value)
    given = value if isinstance(value, list | tuple) else [value]
    tags = (collapsed(str(tag)) for tag in given if isinstance(tag, str | int | float))
    return list(dict.fromkeys(tag for tag in tags if tag))


def language_of(value: Any) -> str | None:
    """Return the primary tag of a language, such as "de" for "de-AT"; None when it is none."""
    found = _LANGUAGE.match(value) if isinstance(value, str) else None
    return found[0].lower() if found else None


def without_surrogates(text: str) -> str:
    """Return a text that can be encoded: half a surrogate pair and U+0000 become U+FFFD."""
    return _SURROGATES.sub("\ufffd", text).replace("\0", "\ufffd")


def collapsed(text: str) -> str:
    """Return a text on one line, without double spaces."""
    return " ".join(text.split())


def sensible_title(text: str) -> str | None:
    """Return the title that a file names in its properties; None where a program wrote something else there."""
    title = _OF_PROGRAMS.sub("", collapsed(text), count=1)
    has_words = sum(map(str.isalpha, title)) >= _ENOUGH_LETTERS
    is_number = " " not in title and sum(map(str.isdigit, title)) >= _DIGITS_OF_A_NUMBER
    return title if has_words and not is_number and not _NO_TITLE.fullmatch(title) else None


def is_raised_behind(before: str, raised: str) -> bool:
    """Return whether a raised text, written on the line, would become a part of the number before it."""
    return before[-1:].isdigit() and _RAISED_NUMBER.match(raised) is not None


def escaped(text: str) -> str:
    """Return a paragraph's text with everything escaped that would begin another block."""
    return _BLOCK_MARKUP.sub(r"\1\\", _INDENTED.sub("", text))


def heading(level: int, title: str) -> str:
    return f"{'#' * min(max(level, 1), 6)} {collapsed(title)}"


def fenced(code: str, language: str = "") -> str:
    """Return a block of code; its fence is longer than any in the code."""
    longest = max((len(found) for found in _FENCE.findall(code)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names in a sentence, cut to 100 characters each: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:_NAME_CHARACTERS] for name in names[:most]) + more


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as people write them: "3, 7-9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return listed([str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs])


def pages_named(numbers: Sequence[int]) -> str:
    return f"{'page' if len(numbers) == 1 else 'pages'} {ranges(numbers)}"


def losses(*sentences: tuple[str, object]) -> list[str]:
    """Return the sentences about what was lost, each with its number or names, if there are any."""
    return [sentence.format(lost) for sentence, lost in sentences if lost]


class MarkdownText:
    """A text that grows by blocks, with an empty line between them, and the marks at its lines."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._lines = 0
        self.marks: list[tuple[int, dict[str, Any]]] = []

    def add(self, *blocks: str) -> None:
        for block in blocks:
            if block.strip():
                trimmed = block.strip("\n")
                self._blocks.append(trimmed)
                self._lines += trimmed.count("\n") + 2

    def mark(self, **metadata: Any) -> None:
        """Let something hold from the next block on."""
        line = self._lines + 1
        if self.marks and self.marks[-1][0] == line:
            self.marks.pop()
        self.marks.append((line, metadata))

    @property
    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n" if self._blocks else ""

    def parsed(self, title: str | None = None, metadata: dict[str, Any] | None = None, **more: Any) -> Parsed:
        """Return the whole; `more` are `pages` and `warnings`."""
        return Parsed(self.text, title, metadata or {}, self.marks, **more)
