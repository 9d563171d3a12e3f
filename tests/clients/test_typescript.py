"""The tests of the TypeScript client pass under `node --test` against a live service."""

from __future__ import annotations

import json

import pytest

from tests.clients.typescript_client import CLIENT, built_client, run
from tests.support.live import live_service
from tests.support.model_server import model_server

KEY = "an-administrators-key-of-tests"
TEST_SECONDS = 300


@pytest.fixture(scope="module")
def built():
    return built_client()


@pytest.fixture(scope="module")
def service(built, tmp_path_factory, processes):
    """A service that asks for a key and has a chat model."""
    with (
        model_server() as models,
        live_service(
            tmp_path_factory.mktemp("typescript"),
            api_key=KEY,
            chat_provider="openai",
            chat_url=f"{models.url}/v1",
            chat_model="chatty",
        ) as service,
    ):
        yield service


def test_its_own_tests_pass(built, service):
    files = sorted(str(file) for file in (built / ".tests" / "tests").glob("*.test.js"))
    assert files
    done = run(["node", "--test", *files], built, TEST_SECONDS, RAG_TEST_URL=service.url, RAG_TEST_KEY=KEY)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_lock_file_names_no_registry():
    packages = json.loads((CLIENT / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in packages.items() if name)


def test_it_needs_no_package_when_it_runs():
    package = json.loads((CLIENT / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(package)
