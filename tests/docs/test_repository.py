"""The repository holds nothing that tools leave behind, and its configurations run existing commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.wheels import PYTHONS

PROJECT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
TOOLS = ".venv/bin/"


def test_files_that_tools_write_are_ignored_and_not_kept():
    if not (PROJECT / ".git").exists():
        pytest.skip("not a clone")
    left = (".schemathesis/", ".hypothesis/", ".venv/", "data/", ".pytest_cache/")
    kept = subprocess.run(["git", "ls-files", *left], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert kept.stdout == ""
    ignored = subprocess.run(
        ["git", "check-ignore", *(f"{name}x" for name in left)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert len(ignored.stdout.splitlines()) == len(left)


def test_the_workflow_runs_what_continuous_integration_runs():
    workflow = yaml.load((PROJECT / ".github/workflows/test.yml").read_text(), Loader=yaml.BaseLoader)
    assert set(workflow["on"]) == {"push", "pull_request"}
    job = workflow["jobs"]["test"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert os.access(PROJECT / commands[0], os.X_OK)
    assert job["strategy"]["matrix"]["python"] == [PYTHONS[0], PYTHONS[-1]]


def test_the_hooks_of_pre_commit_are_what_make_lint_runs():
    [repository] = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local", "hooks work without a network"
    hooks = [hook["entry"].replace(" --force-exclude", "") for hook in repository["hooks"]]
    for hook in hooks:
        assert (Path(sys.executable).parent / hook.split()[0].removeprefix(TOOLS)).exists()
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (PROJECT / "Makefile").read_text(), re.MULTILINE)[1]
    checks = [line.strip().replace("$(BIN)/", TOOLS).removesuffix(" .") for line in lint.splitlines()]
    assert sorted(hooks) == sorted(checks)


def test_every_package_is_typed():
    packages = [name.removesuffix("*") for name in PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert [name for name in packages if not (PROJECT / name / "py.typed").exists()] == []
    assert PYPROJECT["tool"]["setuptools"]["package-data"]["*"] == ["py.typed"]
