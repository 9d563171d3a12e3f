"""`make serve` installs from wheels alone: packages that must be compiled are in extras, or are tools of the tests. The
repository holds nothing that tools leave behind, and its configurations run existing commands."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, requires
from itertools import product
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.docs.wheels import MACHINES, PYTHONS, canonical, pinned

PROJECT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
PROJECT_TABLE = PYPROJECT["project"]
EXTRAS = PROJECT_TABLE["optional-dependencies"]
TOOLS = ".venv/bin/"
WITHOUT_WHEELS = {
    "gunicorn-h1c": set(product(PYTHONS, MACHINES)),
    "pytrec-eval-terrier": set(product(PYTHONS, ["aarch64"])),
}
"""The Pythons and machines for which a pinned package has no wheel, as `python -m tests.docs.wheels` finds them."""


@cache
def requirements_of(name):
    """Return a package's requirements, or an empty list when it is not installed because it is not for this Python."""
    try:
        return [Requirement(each) for each in requires(name) or ()]
    except PackageNotFoundError:
        return []


def needed(requirements, python, machine):
    """Return the names of all packages that these requirements need on that Python and machine, judged by what is
    installed here."""
    there = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    found, waiting = {}, [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        name, extras = canonical(wanted.name), {"", *wanted.extras}
        if extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        waiting += [
            each
            for each in requirements_of(name)
            if each.marker is None or any(each.marker.evaluate(there | {"extra": extra}) for extra in extras)
        ]
    return set(found)


def test_every_package_that_make_serve_installs_has_a_wheel_everywhere():
    lines = [each for each in (PROJECT / "Makefile").read_text().splitlines() if "--only-binary :all:" in each]
    extras = [extra for each in lines for extra in re.search(r"'\.\[([\w,-]+)\]'", each)[1].split(",")]
    direct = [*PROJECT_TABLE["dependencies"], *(each for extra in extras for each in EXTRAS[extra])]
    lacking = set()
    for python, machine in product(PYTHONS, MACHINES):
        installed = needed(direct, python, machine)
        assert len(installed) > len(direct)
        lacking |= {(name, python, machine) for name in installed if (python, machine) in WITHOUT_WHEELS.get(name, ())}
    assert lacking == set()


def test_the_pythons_are_those_supported_and_a_package_without_a_wheel_is_in_an_extra_of_its_own():
    supported = SpecifierSet(PROJECT_TABLE["requires-python"])
    assert list(PYTHONS) == [f"3.{minor}" for minor in range(100) if f"3.{minor}" in supported]
    assert WITHOUT_WHEELS.keys() <= pinned().keys()
    everywhere = {name for name, places in WITHOUT_WHEELS.items() if len(places) == len(PYTHONS) * len(MACHINES)}
    assert {extra for extra, wanted in EXTRAS.items() if everywhere & needed(wanted, "3.11", "x86_64")} == {"fast-http"}


def test_every_package_compiled_here_is_known_to_have_no_wheel():
    """pip tags a wheel that it builds itself `linux_…`; those of a registry are `manylinux…` or for any machine."""
    compiled = {
        canonical(each.metadata["Name"])
        for each in distributions()
        if re.search(r"^Tag: .*-linux_", each.read_text("WHEEL") or "", re.MULTILINE)
    }
    assert compiled & pinned().keys() <= WITHOUT_WHEELS.keys()


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
    assert set(workflow["on"]) == {"push", "pull_request", "schedule"}
    assert workflow["jobs"].keys() == {"test", "test-all"}
    for name, last in (("test", ".ci/run"), ("test-all", "make test-all")):
        job = workflow["jobs"][name]
        assert [step["run"] for step in job["steps"] if "run" in step][-1] == last
        [checkout] = [step["with"] for step in job["steps"] if "with" in step]
        assert checkout["fetch-depth"] == "0", "tests open the data of an earlier release with its own code"
        assert job["strategy"]["matrix"]["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert os.access(PROJECT / ".ci/run", os.X_OK)


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
