"""Checks the built site: every link leads somewhere, and nothing is loaded from another host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FOLLOWED = "a"
"""The element whose addresses are followed only when a reader chooses to."""
_LOADED_BY_STYLES = re.compile(r"(?:@import\s+[\"']?|url\(\s*[\"']?)((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
_LOADED_BY_SCRIPTS = re.compile(r"[\"'`](?:https?:)?//(?!www\.w3\.org/)[\w-]+\.[^\"'`\s]*")


@dataclass
class Page(HTMLParser):
    """What a page has and names: `ids` are the anchors in it, `links` are (element, address)."""

    ids: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.links += [(tag, given[name]) for name in ("href", "src", "data", "poster", "srcset") if name in given]
        if tag == "style" or "style" in given or any(name.startswith("on") for name in given):
            self.inline.append(self.get_starttag_text() or tag)
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.inline.append("a script")


def faults_of(site: Path) -> list[str]:
    """Return a sentence for each fault of the site."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        name = path.relative_to(site)
        faults += [f"{name}: {each} is inside the page" for each in page.inline]
        for element, address in page.links:
            if fault := _fault_of(element, address, path, pages):
                faults.append(f"{name}: {address} {fault}")
    for pattern, kinds in ((_LOADED_BY_STYLES, ("*.css", "*.html", "*.svg")), (_LOADED_BY_SCRIPTS, ("*.js",))):
        for path in sorted(each for kind in kinds for each in site.rglob(kind)):
            faults += [f"{path.relative_to(site)}: loads {found}" for found in pattern.findall(path.read_text())]
    return faults


def _fault_of(element: str, address: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return None if element == FOLLOWED else "is on another host"
    if parts.path.startswith("/"):
        return "is not relative to the site"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads nowhere"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return "names an anchor that is not there"
    return None


def _read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    return page
