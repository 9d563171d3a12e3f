"""Builds the site: gathers its pages, has Zensical make a site of them, makes that self-contained, and checks it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from guide.checking import faults_of
from guide.gathering import gather
from guide.reference import reference_pages
from guide.self_contained import ThemeError, make_self_contained

PROJECT = Path(__file__).resolve().parent.parent
SITE = PROJECT / "interfaces" / "guide"
"""Where the service looks for the site. It is not kept in Git, and part of an installed package that was built after
it."""
SETTINGS = Path(__file__).with_name("site.yaml")
REFERENCE = "reference"
"""The entry of the navigation that stands for the pages made of openapi.yaml, and the folder that they are in."""
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class BuildError(Exception):
    """The site cannot be built as it should be; the sentences say why."""


def build(into: Path) -> int:
    """Replace a folder by the finished site, and return how many pages it has.

    Raises BuildError for any warning of Zensical, a page that is not in the navigation, a link that leads nowhere and
    anything that would be loaded from another host. The folder is as it was then.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, site = Path(folder) / "pages", Path(folder) / "site"
        reference = reference_pages(PROJECT / "openapi.yaml")
        gather(PROJECT, source)
        for name, text in reference.items():
            page = source / REFERENCE / name
            page.parent.mkdir(exist_ok=True)
            page.write_text(text)
        settings = yaml.safe_load(SETTINGS.read_text())
        settings["nav"] = _with_reference(settings["nav"], [f"{REFERENCE}/{name}" for name in reference])
        _refuse_pages_nobody_finds(settings["nav"], source)
        # JSON is YAML, which keeps the settings readable where they are kept.
        (Path(folder) / "mkdocs.yml").write_text(json.dumps(settings | {"docs_dir": "pages", "site_dir": "site"}))
        _run_zensical(Path(folder))
        try:
            make_self_contained(site)
        except ThemeError as error:
            raise BuildError(str(error)) from error
        if faults := faults_of(site):
            raise BuildError("\n".join(faults))
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(site, into)
        return len(list(site.rglob("index.html")))


def _run_zensical(folder: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = _COLOURS.sub("", f"{done.stdout}{done.stderr}")
        raise BuildError(said.partition("Traceback (most recent call last):")[0].strip())


def _with_reference(nav: Any, pages: list[str]) -> Any:
    """Return the navigation with the pages of the reference where their entry stands."""
    if isinstance(nav, list):
        return [page for each in nav for page in (pages if each == REFERENCE else [_with_reference(each, pages)])]
    if isinstance(nav, dict):
        return {title: _with_reference(below, pages) for title, below in nav.items()}
    return nav


def _refuse_pages_nobody_finds(nav: object, source: Path) -> None:
    there = {str(page.relative_to(source)) for page in source.rglob("*.md")}
    if lost := sorted(there ^ set(_pages_in(nav))):
        raise BuildError(f"Either a page is missing, or guide/site.yaml lacks it: {', '.join(lost)}")


def _pages_in(nav: object) -> list[str]:
    if isinstance(nav, list):
        return [page for each in nav for page in _pages_in(each)]
    if isinstance(nav, dict):
        return [page for below in nav.values() for page in _pages_in(below)]
    return [str(nav)]
