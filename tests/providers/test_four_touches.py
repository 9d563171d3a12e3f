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
CONTRACT = "tests/providers/contracts"
LINES = (
    ("registry/provider_discovery.py", "BUILTINS = (", 'BUILTINS = (\n    Builtin("rag", "shelf", "providers.shelf"),'),
    (f"{CONTRACT}/harnesses.py", '    "local": (local,),', '    "local": (local,),\n    "shelf": (local,),'),
)


@pytest.mark.slow
def test_four_touches_are_enough(tmp_path):
    for name in PACKAGES:
        shutil.copytree(PROJECT / name, tmp_path / name)  # with what is compiled, which takes seconds
    for name in FILES:
        shutil.copy(PROJECT / name, tmp_path)
    module = (tmp_path / "providers/local.py").read_text()
    for before, after in LOCAL.items():
        assert before in module
        module = module.replace(before, after)
    (tmp_path / "providers/shelf.py").write_text(module)
    shutil.copy(tmp_path / "schemas/providers/rag-local.json", tmp_path / "schemas/providers/rag-shelf.json")
    for file, line, lines in LINES:
        text = (tmp_path / file).read_text()
        assert text.count(line) == 1
        (tmp_path / file).write_text(text.replace(line, lines))
    options = ("-q", "--tb=line", "-p", "no:cacheprovider", "-k", "(shelf or held) and not generated")
    command = (sys.executable, "-m", "pytest", *options, f"{CONTRACT}/test_every_provider.py")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 80  # so many has the contract at least


def test_a_missing_harness_is_reported():
    (parameter,) = harnesses_of([SimpleNamespace(id="shelf")])
    _, harness = parameter.values[0]
    with pytest.raises(pytest.fail.Exception, match="provider 'shelf' needs a line in HARNESSES"):
        harness(SimpleNamespace(param=parameter.values[0]), None)


def test_every_builtin_has_its_schema_and_every_schema_its_builtin():
    files = {path.stem for path in (PROJECT / "schemas/providers").glob("*.json")}
    assert files == {f"{builtin.kind}-{builtin.id}" for builtin in BUILTINS}


def test_the_four_touches_are_documented():
    for page in ("CONTRIBUTING.md", "docs/providers.md"):
        text = (PROJECT / page).read_text()
        for place in ("`providers/`", "`schemas/providers/`", "`registry/provider_discovery.py`", "`tests/providers/"):
            assert place in text, f"{page}: {place}"
