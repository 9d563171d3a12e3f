"""The Python blocks of a page of the guide, as one program."""

from __future__ import annotations

from pathlib import Path

from markdown_it import MarkdownIt

DOCUMENTED_ADDRESS = "http://127.0.0.1:5006"


def program(page: Path, url: str) -> str:
    """Return all `python` blocks of a page one after the other, for the service at `url`. They check themselves with
    `assert`."""
    blocks = [
        token.content
        for token in MarkdownIt("commonmark").parse(page.read_text())
        if token.type == "fence" and token.info.strip() == "python"
    ]
    return "\n".join(blocks).replace(DOCUMENTED_ADDRESS, url)
