"""AsciiDoc, Org and LaTeX as Markdown: their headings and their code. All else stays as it is written."""

from __future__ import annotations

import re
from typing import NamedTuple

from retrieval.parsing.parsed import Parsed, collapsed, escaped, heading

_FENCE = "~~~~~~"
_UNDERLINES = "=-~^+"
"""Of AsciiDoc's headings of two lines, by their levels."""
_AFTER_TITLE = re.compile(r"[ \t](?:=+|:[\w@#%:]+:)$")
_LATEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_LATEX_HEADING = rf"\\({'|'.join(_LATEX_LEVELS)})\*?(?:\[[^\]\n]*\])?\{{((?:[^{{}}\n]|\{{[^{{}}\n]*\}})*)\}}"
_LATEX_LABELS = r"(?:[ \t]*\\label\{[^{}\n]*\})*+"
_TEXT_ON_THE_LINE = re.compile(
    rf"((?:^{_LATEX_HEADING}{_LATEX_LABELS})|\\begin\{{document\}})[ \t]*(?=[^\s%])", re.IGNORECASE | re.MULTILINE
)
"""What has a line of its own, before text that shares it."""


class _Markup(NamedTuple):
    """Patterns of whole lines: of a heading (its marks, its title), of the lines around code and around what says
    nothing, of a line that says nothing; and, in the text, of the title."""

    heading: re.Pattern[str]
    code: re.Pattern[str]
    code_end: re.Pattern[str]
    hidden: re.Pattern[str]
    hidden_end: re.Pattern[str]
    nothing: re.Pattern[str]
    title: re.Pattern[str]


_PATTERNS = {
    "asciidoc": (
        r"(={1,6})[ \t]+(\S.*)",
        *(r"-{4,}|\.{4,}", r"-{4,}|\.{4,}"),
        *(r"/{4,}", r"/{4,}"),
        r"//.*|:[\w-]+!?:.*|\[.*\]|={4,}|\*{4,}|_{4,}|\+{4,}|[|,:!]={3,}",
        r"(?!)",
    ),
    "org": (
        r"(\*+)[ \t]+(?:(?:TODO|DONE)[ \t]+)?(\S.*)",
        *(r"#\+begin_(?:src|example)\b.*", r"#\+end_\w+.*"),
        *(r":(?:PROPERTIES|LOGBOOK):", r":END:"),
        r"#\+.*|#[ \t].*",
        r"^#\+title:(.*)",
    ),
    "latex": (
        rf"{_LATEX_HEADING}{_LATEX_LABELS}\s*(?:%.*)?",
        *(r"\\begin\{(?:verbatim|lstlisting|minted)\}.*", r"\\end\{(?:verbatim|lstlisting|minted)\}.*"),
        *(r"\\documentclass\b(?!.*\\begin\{document\}).*", r"(?:.*[^\\%])?\\begin\{document\}\s*(?:%.*)?"),
        r"%.*|\\(?:end\{document\}|maketitle|tableofcontents)",
        r"^[ \t]*\\title(?:\[[^\]\n]*\])?\{([^{}]{0,500})\}",
    ),
}
_MARKUPS = {
    kind: _Markup._make(re.compile(each, re.IGNORECASE | re.MULTILINE) for each in patterns)
    for kind, patterns in _PATTERNS.items()
}
KINDS_OF_MARKUP = frozenset(_MARKUPS)


def markdown_of(kind: str, text: str) -> Parsed:
    """Return a text of one of these kinds as Markdown, line by line. No line moves, unless text shares the line of a
    heading of LaTeX: it goes below it."""
    markup = _MARKUPS[kind]
    if kind == "latex":
        text = _TEXT_ON_THE_LINE.sub(r"\1\n", text)
    lines: list[str] = []
    code_end = hidden_end = None
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        if code_end:
            code_end = None if (is_end := code_end.fullmatch(bare)) else code_end
            lines.append(_FENCE if is_end else line)
        elif hidden_end:
            hidden_end = None if hidden_end.fullmatch(bare) else hidden_end
            lines.append("")
        elif found := markup.heading.fullmatch(line.rstrip()):
            level = _LATEX_LEVELS.index(found[1].lower()) + 1 if kind == "latex" else len(found[1])
            lines.append(heading(level, _AFTER_TITLE.sub("", found[2])))
        elif kind == "asciidoc" and lines and _underlines(bare, lines[-1]):
            lines[-1:] = [heading(_UNDERLINES.index(bare[0]) + 1, lines[-1]), ""]
        elif markup.code.fullmatch(bare):
            code_end = markup.code_end
            lines.append(_FENCE)
        elif markup.hidden.fullmatch(bare):
            hidden_end = markup.hidden_end
            lines.append("")
        else:
            lines.append("" if markup.nothing.fullmatch(bare) else escaped(line))
    title = markup.title.search(text)
    return Parsed("\n".join(lines), collapsed(title[1].replace("\\\\", " ")) or None if title else None)


def _underlines(line: str, above: str) -> bool:
    is_one_sign = line != "" and line[0] in _UNDERLINES and not line.strip(line[0])
    return is_one_sign and above[:1] != "." and abs(len(line) - len(above)) < 3 <= len(line)
