"""A built-in provider takes four touches: module, schema, line of discovery, harness. Nothing else knows it by name."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from registry.provider_discovery import BUILTINS
from tests.providers.contracts.harnesses import harnesses_of

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces", "tests")
FILES = ("pyproject.toml", "openapi.yaml", "gunicorn.conf.py")

LOCAL = {"LocalProvider": "ShelfProvider", '"local"': '"shelf"', '"rag-local"': '"rag-shelf"'}
"""What makes the module of `local` one of a new provider, which knows no other."""
BUILTIN = 'BUILTINS = (\n    Builtin("rag", "shelf", "providers.shelf"),'
CONTRACT = "tests/providers/contracts"
MANY = 80
"""The least number of tests that the contract has."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project with the four touches made."""
    copy = tmp_path_factory.mktemp("copy")
    for name in PACKAGES:
        shutil.copytree(PROJECT / name, copy / name)  # with what is compiled, which takes seconds
    for name in FILES:
        shutil.copy(PROJECT / name, copy)
    shutil.copy(copy / "providers/local.py", copy / "providers/shelf.py")
    for before, after in LOCAL.items():
        module = (copy / "providers/shelf.py").read_text()
        assert before in module
        (copy / "providers/shelf.py").write_text(module.replace(before, after))
    shutil.copy(copy / "schemas/providers/rag-local.json", copy / "schemas/providers/rag-shelf.json")
    replace(copy / "registry/provider_discovery.py", "BUILTINS = (", BUILTIN)
    line = '    "local": (local,),'
    replace(copy / CONTRACT / "harnesses.py", line, f'{line}\n    "shelf": (local,),')
    return copy


def replace(path, before, after):
    assert path.read_text().count(before) == 1
    path.write_text(path.read_text().replace(before, after))


@pytest.mark.slow
def test_four_touches_are_enough(copy):
    options = ("-q", "--tb=line", "-p", "no:cacheprovider", "-k", "(shelf or held) and not generated")
    command = (sys.executable, "-m", "pytest", *options, f"{CONTRACT}/test_every_provider.py")
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > MANY


def test_a_missing_harness_is_reported():
    (parameter,) = harnesses_of([SimpleNamespace(id="shelf")])
    _, harness = parameter.values[0]
    with pytest.raises(pytest.fail.Exception, match="provider 'shelf' needs a line in HARNESSES"):
        harness(SimpleNamespace(param=parameter.values[0]), None)


def test_every_builtin_has_its_schema_and_every_schema_its_builtin():
    files = {path.stem for path in (PROJECT / "schemas/providers").glob("*.json")}
    assert files == {f"{builtin.kind}-{builtin.id}" for builtin in BUILTINS}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/providers.md"])
def test_the_four_touches_are_documented(page):
    text = (PROJECT / page).read_text()
    for place in ("`providers/`", "`schemas/providers/`", "`registry/provider_discovery.py`", "`tests/providers/"):
        assert place in text, place
