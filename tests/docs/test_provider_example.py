"""The provider of `docs/providers.md`, installed as anybody's package would be."""

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import orjson
import pytest

from providers.base import SupportsGather, capabilities
from registry.discovery import GROUP, discover
from registry.registry import ProviderRegistry
from schemas.connections import InvalidConfigurationError
from schemas.errors import CollectionNotFoundError, UnsupportedError

DOCUMENT = Path(__file__).parents[2] / "docs" / "providers.md"
MOST_LINES = 60


def block(language):
    return re.search(rf"```{language}\n(.*?)```", DOCUMENT.read_text().partition("## A provider of your own")[2], re.S)[
        1
    ]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that pip installed the package into, on the search path for the length of the module."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "rag_jsonlines.py").write_text(block("python"))
    (source / "pyproject.toml").write_text(block("toml"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    done = subprocess.run([*pip, *options, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(target))
    yield target
    sys.path.remove(str(target))
    sys.modules.pop("rag_jsonlines", None)


@pytest.fixture(scope="module")
def registry(installed):
    strangers = [
        point for found in distributions(path=[str(installed)]) for point in found.entry_points.select(group=GROUP)
    ]
    return discover(ProviderRegistry(), builtins=(), strangers=strangers)


@pytest.fixture
def folder(tmp_path):
    lines = [
        {"id": "a", "text": "east", "metadata": {"page": 1}, "embedding": [1.0, 0.0]},
        {"id": "b", "text": "north", "embedding": [0.0, 1.0]},
    ]
    (tmp_path / "compass.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    return tmp_path


def test_it_is_short():
    assert len(block("python").splitlines()) < MOST_LINES


def test_an_installed_package_is_found_by_its_entry_point(registry):
    entry = registry.entry("jsonlines")
    assert (entry.kind, entry.viable, entry.capabilities) == ("rag", True, ["collections", "search"])


def test_it_works(registry, folder):
    with registry.connect("rag", "jsonlines", {"folder": str(folder)}, None) as provider:
        [info] = provider.collections()
        assert (info.name, info.count, info.dimension) == ("compass", 2, 2)
        nearest, other = provider.search("compass", np.array([0.8, 0.6], dtype=np.float32), top_k=2)
        assert (nearest.document.id, nearest.document.metadata) == ("a", {"page": 1})
        assert nearest.distance == pytest.approx(0.2, abs=1e-6)
        assert nearest.score == pytest.approx(0.9, abs=1e-6)
        assert other.document.id == "b"
        assert provider.health().status == "healthy"


def test_it_fails_in_the_words_of_the_contract(registry, folder):
    with pytest.raises(InvalidConfigurationError, match="Folder is required"):
        registry.connect("rag", "jsonlines", {}, None)
    with registry.connect("rag", "jsonlines", {"folder": str(folder)}, None) as provider:
        with pytest.raises(CollectionNotFoundError):
            provider.search("nothing", np.ones(2, dtype=np.float32))
        with pytest.raises(UnsupportedError) as caught:
            registry.require(provider, SupportsGather)
        assert caught.value.details["capability"] == "gather"
    assert registry.connect("rag", "jsonlines", {"folder": "/nowhere"}, None).health().status == "unhealthy"


def test_its_capabilities_are_what_it_implements(registry):
    assert capabilities(registry.provider("rag", "jsonlines")) == ["collections", "search"]
