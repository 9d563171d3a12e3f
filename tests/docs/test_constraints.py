"""`make serve` installs from wheels alone: what has to be compiled is an extra."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
MUST_BE_COMPILED = {"gunicorn-h1c"}
"""Pinned packages without a wheel for Linux on x86-64 or aarch64, for any Python from 3.11 on."""
COMPILED_ON_ARM = {"pytrec-eval-terrier"}
"""Those with none for aarch64 alone: `ir-measures` needs it, which the tests do."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def named(requirements: list[str]) -> set[str]:
    return {canonical(re.match(r"[\w.-]+", each)[0]) for each in requirements}


def test_nothing_that_must_be_compiled_is_installed_unless_it_is_asked_for():
    extras = PROJECT_TABLE["optional-dependencies"]
    assert not MUST_BE_COMPILED & named(PROJECT_TABLE["dependencies"])
    assert {name for name, needed in extras.items() if MUST_BE_COMPILED & named(needed)} == {"fast-http"}
    install = next(line for line in (PROJECT / "Makefile").read_text().splitlines() if "--editable '.[local" in line)
    assert "--only-binary :all:" in install
    assert "fast-http" not in install
    assert "dev" not in install
    assert {name for name, needed in extras.items() if "ir-measures" in named(needed)} == {"dev"}


def test_what_was_compiled_here_is_known_to_have_no_wheel():
    """A wheel that pip builds itself is for `linux_…`; those of a registry are for `manylinux…` or for any machine."""
    pinned = {
        canonical(line.partition("==")[0])
        for line in (PROJECT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    compiled = {
        canonical(each.metadata["Name"])
        for each in distributions()
        if re.search(r"^Tag: .*-linux_", each.read_text("WHEEL") or "", re.MULTILINE)
    }
    assert compiled & pinned <= MUST_BE_COMPILED | COMPILED_ON_ARM
