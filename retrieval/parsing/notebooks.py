"""Jupyter notebooks: their Markdown as it is, their code in fences, and what the code printed."""

from __future__ import annotations

import json
import re
from typing import Any

from retrieval.parsing.markdown_comments import without_comments
from retrieval.parsing.parsed import MarkdownText, Parsed, UnreadableError, fenced

_MAX_OUTPUT_CHARACTERS = 2_000
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def parse(content: bytes) -> Parsed:
    """Return the cells of a notebook in order."""
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError("is not a notebook: it is not JSON") from error
    if not isinstance(notebook, dict):
        raise UnreadableError("is not a notebook: it has no cells")
    cells = notebook.get("cells")
    if cells is None and isinstance(sheets := notebook.get("worksheets"), list):  # before version 4
        cells = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    if not isinstance(cells, list):
        raise UnreadableError("is not a notebook: it has no cells")
    language = _language(notebook.get("metadata"))
    document, left_out = MarkdownText(), 0
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source", cell.get("input")))
        if cell.get("cell_type") != "code":
            document.add(without_comments(source))
            continue
        document.add(fenced(source, language) if source.strip() else "")
        for output in cell.get("outputs") or ():
            shown = _output(output)
            left_out += len(shown) > _MAX_OUTPUT_CHARACTERS
            document.add(fenced(shown, "text") if 0 < len(shown) <= _MAX_OUTPUT_CHARACTERS else "")
    warnings = [f"{left_out} outputs of more than {_MAX_OUTPUT_CHARACTERS} characters are left out"] if left_out else []
    return document.parsed(warnings=warnings)


def _language(metadata: Any) -> str:
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9+#-]{1,20}", name) else "python"


def _output(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    text = output.get("text", data.get("text/plain") if isinstance(data, dict) else None)
    if output.get("output_type") in ("error", "pyerr"):
        text = f"{output.get('ename')}: {output.get('evalue')}"
    return _TERMINAL_COLOURS.sub("", _joined(text)).strip()


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(each for each in source if isinstance(each, str))
    return source if isinstance(source, str) else ""
