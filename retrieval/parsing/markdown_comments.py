"""Comments of Markdown, which nobody sees who reads it: those of HTML, and `{/* … */}` of MDX."""

from __future__ import annotations

import re

_ENDS = {"<!--": "-->", "{/*": "*/}"}
_PLACES = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+|\d{1,9}[.)][ \t]+)?(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})"
    r"|(?P<code>`+)|(?P<comment><!--|\{/\*)|\n",
    re.MULTILINE,
)


def without_comments(text: str) -> str:
    """Return Markdown without its comments, whose lines become empty or shorter, so that no line moves. Code keeps
    them, in fences, between backticks of a line, and indented; so does a comment that does not end."""
    kept: list[str] = []
    done = place = ticks = line_start = 0
    unending: set[str] = set()
    while found := _PLACES.search(text, place):
        place = found.end()
        if fence := found["fence"]:
            closing = re.compile(rf"^[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE).search(text, place)
            place = closing.end() if closing else len(text)
        elif found["code"]:
            ticks += 1
        elif mark := found["comment"]:
            is_code = ticks % 2 == 1 or text.startswith(("    ", "\t"), line_start)
            end = -1 if is_code or mark in unending else text.find(_ENDS[mark], place)
            if end >= 0:
                place = end + len(_ENDS[mark])
                kept += text[done : found.start()], "\n" * text.count("\n", found.start(), place)
                done = place
            elif not is_code:
                unending.add(mark)
        else:
            ticks, line_start = 0, place
    return "".join([*kept, text[done:]])
