"""Jupyter notebooks: their Markdown as it is, their code in fences, and what the code printed or displayed."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from retrieval.parsing.markdown_comments import without_comments
from retrieval.parsing.parsed import MarkdownText, Parsed, UnreadableError, fenced, losses

try:
    from retrieval.parsing.html_pages import seen_blocks
except ImportError:  # without the extra 'formats'

    def seen_blocks(page: str) -> tuple[list[str], int]:
        return [], 0


_MAX_OUTPUT_CHARACTERS = 2_000
_MAX_DISPLAYED_CHARACTERS = 20_000  # of Markdown and of HTML, which are made for people
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_OBJECT = re.compile(r"[\s\[\](),]*(?:<[^<>]*>[\s\[\](),]*)+")
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def parse(content: bytes) -> Parsed:
    """Return the cells of a notebook in order. Its title is the first heading of its Markdown."""
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError("is not a notebook: it is not JSON") from error
    if not isinstance(notebook, dict):
        raise UnreadableError("is not a notebook: it has no cells")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        raise UnreadableError("is not a notebook: it has no cells")
    language = _language(notebook.get("metadata"))
    document, title = MarkdownText(), None
    too_long = pictures = 0
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source"))
        if cell.get("cell_type") != "code":
            document.add(without_comments(source))
            title = title or (_first_heading(source) if cell.get("cell_type") != "raw" else None)
            pictures += len(cell.get("attachments") or ())
            continue
        document.add(fenced(source, language) if source.strip() else "")
        for output in cell.get("outputs") or ():
            shown, is_displayed, has_picture = _output(output)
            pictures += has_picture
            if len(shown) > (_MAX_DISPLAYED_CHARACTERS if is_displayed else _MAX_OUTPUT_CHARACTERS):
                too_long += 1
            elif shown:
                document.add(shown if is_displayed else fenced(shown, "text"))
    warnings = losses(
        (f"{{}} outputs of more than {_MAX_OUTPUT_CHARACTERS} characters are left out", too_long),
        ("Pictures and other outputs without text are left out: {}", pictures),
    )
    return document.parsed(title, warnings=warnings)


def _first_heading(source: str) -> str | None:
    """Return the first heading of Markdown that is not in a fence."""
    fence, before = "", ""
    for line in source.splitlines():
        if fence:
            fence = "" if line.strip().startswith(fence) and not line.strip(f" \t{fence[0]}") else fence
        elif opened := _FENCE.match(line):
            fence = opened[1]
        elif found := _HEADING.fullmatch(line):
            return found[1].rstrip(" \t#") or None
        elif before and _UNDERLINE.fullmatch(line):
            return before
        before = line.strip()
    return None


def _language(metadata: Any) -> str:
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9+#-]{1,20}", name) else "python"


def _output(output: Any) -> tuple[str, bool, bool]:
    """Return the text of an output, whether it is Markdown made for people, and whether it has more that is no text."""
    if not isinstance(output, dict):
        return "", False, False
    data = output.get("data")
    if not isinstance(data, dict):
        data = {"text/plain": output.get("text")}
    plain = _TERMINAL_COLOURS.sub("", _joined(data.get("text/plain"))).strip()
    if output.get("output_type") == "error":
        plain = f"{output.get('ename')}: {output.get('evalue')}"
    if markdown := _joined(data.get("text/markdown")).strip():
        return markdown, True, False
    is_object = _OBJECT.fullmatch(plain) is not None
    page = _joined(data.get("text/html"))
    if page.strip() and (not plain or is_object or "<table" in page):
        with suppress(UnreadableError):
            if blocks := seen_blocks(page)[0]:
                return "\n\n".join(blocks), True, False
    if (not plain or is_object) and (formula := _joined(data.get("text/latex")).strip()):
        return formula, True, False
    has_picture = any(kind.startswith("image/") for kind in data)
    if is_object and (has_picture or len(data) > 1):
        return "", False, True
    return plain, False, has_picture or (not plain and any(kind != "text/plain" for kind in data))


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(each for each in source if isinstance(each, str))
    return source if isinstance(source, str) else ""
