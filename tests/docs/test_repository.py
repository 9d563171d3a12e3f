"""What the repository holds: nothing that tools leave behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def test_what_tools_write_is_ignored_and_not_kept():
    if not (PROJECT / ".git").exists():
        pytest.skip("not a clone")
    left = (".schemathesis/", ".hypothesis/", ".venv/", "data/", ".pytest_cache/")
    kept = subprocess.run(["git", "ls-files", *left], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert kept.stdout == ""
    ignored = subprocess.run(
        ["git", "check-ignore", *(f"{name}x" for name in left)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert len(ignored.stdout.splitlines()) == len(left)
