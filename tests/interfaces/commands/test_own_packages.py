"""Packages are installed beside others, and `schemas` is a name that others use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interfaces.commands.own_packages import PACKAGES

ROOT = Path(__file__).parents[3]
RUN = "from interfaces.cli import main; main()"


def run(folder, *arguments):
    """Run the command line as it is installed from a wheel, with a folder that PYTHONPATH names first."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, "-P", "-c", RUN, *arguments]
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_that_hides_one_of_ours_is_named_with_its_file(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    done = run(tmp_path, "keys", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {tmp_path / name / '__init__.py'} hides the package '{name}' of rag-wrapper: "
        f"take {tmp_path} off PYTHONPATH, or give that package another name\n"
    )


def test_a_module_that_hides_one_of_ours_is_named_with_its_folder(tmp_path):
    (tmp_path / "retrieval.py").touch()
    done = run(tmp_path, "keys", "list")
    assert (
        f"{tmp_path / 'retrieval.py'} hides the package 'retrieval' of rag-wrapper: take {tmp_path} off" in done.stderr
    )


def test_a_folder_without_an_init_hides_nothing(tmp_path):
    (tmp_path / "schemas" / "mine").mkdir(parents=True)
    done = run(tmp_path, "collections", "--help")
    assert (done.returncode, done.stderr) == (0, "")
