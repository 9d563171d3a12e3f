"""The provider of `docs/providers.md` works when it is installed and tested as anybody's package would be."""

import os
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import numpy as np
import orjson
import pytest

from providers.base import SupportsGather, capabilities
from registry.provider_discovery import GROUP, discover
from registry.provider_registry import ProviderRegistry
from schemas.connections import InvalidConfigurationError
from schemas.errors import CollectionNotFoundError, UnsupportedError

DOCUMENT = Path(__file__).parents[2] / "docs" / "providers.md"
MANY = 80
"""The least number of tests that the contract has."""


def blocks(language):
    section = DOCUMENT.read_text().partition("## A provider of your own")[2]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


MODULE, TESTS = blocks("python")
(PROJECT,) = blocks("toml")

BREAKS = {
    "unrounded": (
        'rounded(1.0 - float(cosine), "cosine")',
        "1.0 - float(cosine)",
        "test_distances_and_scores_are_rounded_alike",
    ),
    "unfiltered": ("check_unfiltered(where)", "pass", "test_a_search_heeds_its_filter_or_refuses_it"),
    "unsorted": (
        "sorted(matches, key=lambda match: match.distance)",
        "matches",
        "test_order_distance_and_score_are_the_exact_ones",
    ),
    "own_score": ('score(distance, "cosine")', "1.0 - distance", "test_distances_and_scores_are_rounded_alike"),
    "any_field": (
        '"additionalProperties": False',
        '"additionalProperties": True',
        "test_a_configuration_that_does_not_fit_is_refused_by_field",
    ),
    "half_able": (
        "    def _read(self, name):",
        "    def gather(self):\n        pass\n\n    def _read(self, name):",
        "test_a_capability_is_declared_whole_or_refused[gather]",
    ),
    "never_unknown": (
        "raise CollectionNotFoundError(name)",
        "return []",
        "test_an_unknown_collection_is_told_from_everything_else[no-such-collection]",
    ),
}
"""What is right in the example, what is wrong instead, and which test notices."""


def run_pytest(folder, **environment):
    """Run the tests in a folder as their author does, there and with pytest alone; return the process and its
    failures."""
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | alone
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return done, set(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE))


@pytest.fixture(scope="module")
def installed(tmp_path_factory, processes):
    """The folder into which pip installed the package, which is on the search path for the length of the module."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "rag_jsonlines.py").write_text(MODULE)
    (source / "pyproject.toml").write_text(PROJECT)
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
        {"id": "b", "text": "north", "metadata": {}, "embedding": [0.0, 1.0]},
    ]
    (tmp_path / "compass.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    return tmp_path


def test_an_installed_package_is_found_by_its_entry_point(registry):
    entry = registry.entry("jsonlines")
    assert (entry.kind, entry.viable, entry.capabilities) == ("rag", True, ["collections", "search"])
    assert capabilities(registry.provider("rag", "jsonlines")) == entry.capabilities


def test_the_example_works(registry, folder):
    with registry.connect("rag", "jsonlines", {"folder": str(folder)}, None) as provider:
        [info] = provider.collections()
        assert (info.name, info.count, info.dimension) == ("compass", 2, 2)
        nearest, other = provider.search("compass", np.array([0.8, 0.6], dtype=np.float32), top_k=2)
        assert (nearest.document.id, nearest.document.metadata) == ("a", {"page": 1})
        assert nearest.distance == pytest.approx(0.2, abs=1e-6)
        assert nearest.score == pytest.approx(0.9, abs=1e-6)
        assert other.document.id == "b"
        assert provider.health().status == "healthy"


def test_the_example_fails_as_the_contract_says(registry, folder):
    with pytest.raises(InvalidConfigurationError, match="Folder is required"):
        registry.connect("rag", "jsonlines", {}, None)
    with registry.connect("rag", "jsonlines", {"folder": str(folder)}, None) as provider:
        with pytest.raises(CollectionNotFoundError):
            provider.search("nothing", np.ones(2, dtype=np.float32))
        with pytest.raises(UnsupportedError) as caught:
            registry.require(provider, SupportsGather)
        assert caught.value.details["capability"] == "gather"
    assert registry.connect("rag", "jsonlines", {"folder": "/nowhere"}, None).health().status == "unhealthy"


def test_the_example_passes_the_contract_tests_outside_of_the_repository(installed, tmp_path):
    (tmp_path / "test_rag_jsonlines.py").write_text(TESTS)
    done, failed = run_pytest(tmp_path, PYTHONPATH=str(installed))
    assert (done.returncode, failed) == (0, set()), done.stdout + done.stderr
    assert "skipped" not in done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > MANY


@pytest.mark.slow
def test_a_broken_provider_fails_the_contract_tests(tmp_path):
    for name, (right, wrong, _) in BREAKS.items():
        assert MODULE.count(right) == 1
        (tmp_path / f"{name}.py").write_text(MODULE.replace(right, wrong))
        (tmp_path / f"test_{name}.py").write_text(TESTS.replace("from rag_jsonlines", f"from {name}"))
    done, failed = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    expected = {f"test_{name}.py::TestJsonLines::{test}" for name, (_, _, test) in BREAKS.items()}
    assert expected <= failed, sorted(expected - failed)


def test_a_missing_pytest_is_reported_with_the_command_that_installs_it():
    program = "import sys; sys.modules['pytest'] = None; import providers.contract_tests"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: The contract tests need pytest: pip install 'rag-wrapper[contract-tests]'"
    )
