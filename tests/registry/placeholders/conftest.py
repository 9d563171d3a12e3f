"""Resolve placeholders of a planted environment and a directory of secrets."""

import pytest

from registry.placeholders.resolving import Placeholders
from tests.registry.placeholders.planted import ENVIRON


@pytest.fixture
def secret_dir(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "key").write_text("sk-from-file\n")
    return directory


@pytest.fixture
def placeholders(secret_dir):
    return Placeholders(ENVIRON, secret_dirs=[secret_dir])
