"""Makes the site work below a policy that allows neither inline scripts nor inline styles, and without any other
host."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

SCRIPTS = "assets/javascripts"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_ALIGNED = re.compile(r'(<t[hd]) style="text-align: (\w+);"')
_HOSTED = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net|api\.github\.com)/[^\s\"'`)]*")
"""What the theme's scripts would load if a page had a diagram, a gallery or a repository to show. None has."""
_SEARCH_STYLE = re.compile(r"(\w+)\.appendChild\(\w+\(\"style\",\{\},(\w+)\.toString\(\)\)\)")
"""Where the script of the search adds a style to the page."""
_ADOPTED = r"\1.adoptedStyleSheets=[(s=>(s.replaceSync(\2.toString()),s))(new CSSStyleSheet)]"
_UNUSED = ("404.html", "sitemap.xml", "sitemap.xml.gz", "objects.inv")


class ThemeError(Exception):
    """The theme is not the one that this module knows."""


def make_self_contained(site: Path) -> None:
    """Move what is inline into files, and take addresses of other hosts out of the theme's scripts.

    Raises ThemeError when the script of the search adds its style in another way than the one known here.
    """
    for page in sorted(site.rglob("*.html")):
        text = _INLINE.sub(lambda found, page=page: _script(site, page, found[1]), page.read_text())  # type: ignore[misc]
        page.write_text(_ALIGNED.sub(r'\1 align="\2"', text))
    styled = 0
    for script in sorted(site.rglob("*.js")):
        text, added = _SEARCH_STYLE.subn(_ADOPTED, _HOSTED.sub("", script.read_text()))
        styled += added
        script.write_text(text)
    if styled != 1:
        raise ThemeError(f"The theme's search adds its style in {styled} places, and not in the one that is known")
    for name in _UNUSED:
        (site / name).unlink(missing_ok=True)


def _script(site: Path, page: Path, code: str) -> str:
    name = f"{SCRIPTS}/page.{hashlib.sha256(code.encode()).hexdigest()[:8]}.js"
    (site / name).write_text(code)
    return f'<script src="{os.path.relpath(site / name, page.parent)}"></script>'
