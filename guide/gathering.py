"""Gathers the pages of the site, whose links are those of the repository, and makes them links of the site."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from guide.spelling import code_in_cell

HOME = "README.md"
AT_THE_TOP = (HOME, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:|#")
_FENCE = re.compile(r"^ *```")
_BAR = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
"""Code with a vertical bar in a cell. Forges leave out the backslash before it; Python's Markdown would show it."""


def gather(project: Path, into: Path) -> None:
    """Copy the pages of the project and what they show into a folder, with the links of the site.

    A link to another file of the project leads to a copy of it, one to a folder or to a test is left out: its words
    stay.
    """
    pages = {project / name: "index.md" if name == HOME else name.lower() for name in AT_THE_TOP}
    docs = project / "docs"
    pages |= {page: str(page.relative_to(docs)) for page in sorted(docs.rglob("*.md"))}
    into.mkdir(parents=True)
    shutil.copytree(project / "docs" / "pictures", into / "pictures")
    places = pages | {picture: f"pictures/{picture.name}" for picture in (project / "docs" / "pictures").iterdir()}
    for page, name in pages.items():
        pieces, fenced = [], False
        for piece in re.split(r"(\n\n|^ *```.*$)", page.read_text(), flags=re.MULTILINE):
            fenced ^= bool(_FENCE.match(piece))
            pieces.append(piece if fenced else _linked(_BAR.sub(_cell_code, piece), page, places, project, into))
        (into / name).parent.mkdir(exist_ok=True)
        (into / name).write_text("".join(pieces))


def _cell_code(found: re.Match[str]) -> str:
    return code_in_cell(found[0].replace(r"\|", "|"))


def _linked(text: str, page: Path, places: dict[Path, str], project: Path, into: Path) -> str:
    """Return a piece of a page with the links of the site."""
    up = "../" * places[page].count("/")

    def linked(found: re.Match[str]) -> str:
        words, target = _linked(found[1], page, places, project, into), found[2]
        if _ELSEWHERE.match(target):
            return f"[{words}]({target})"
        path, hash_sign, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path))
        if file in places:
            return f"[{words}]({up}{places[file]}{hash_sign}{anchor})"
        if file.is_dir() or project / "tests" in file.parents:
            return words
        copy = into / "files" / file.relative_to(project)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        return f"[{words}]({up}files/{file.relative_to(project)})"

    return _LINK.sub(linked, text)
