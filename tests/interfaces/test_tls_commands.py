"""Commands ask a service that speaks TLS: one of this machine is known by its certificate, any other by its
authority."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interfaces.conftest import environ
from tests.support.live import command, eventually, spawn_service
from tests.wrapper.serving.certificates import write_pair

NAMED = ("check", "--url")
PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    """A service whose certificate names neither loopback nor localhost, named by relative paths."""
    directory = tmp_path_factory.mktemp("tls-commands")
    write_pair(directory, "rag.corp.example")
    service = spawn_service(directory, {"workers": 1, "tls_cert": "cert.pem", "tls_key": "key.pem"})
    try:
        known = {"RAG_DATA_DIR": str(service.data_dir)}
        eventually(lambda: run(service, *NAMED, service.url, **known)[0] == 0, complaint=service.tail)
        yield service
    finally:
        service.stop()


def run(service, *arguments, cwd=None, **settings):
    done = subprocess.run(
        command(*arguments),
        env={**environ(), **settings},
        cwd=cwd or service.data_dir.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_service_of_a_data_directory_of_the_settings_and_of_its_name_is_found_and_known(service):
    code, shown, _ = run(service, "collections", "--json", RAG_DATA_DIR=str(service.data_dir))
    assert (code, json.loads(shown)["collections"]) == (0, [])
    code, shown, failed = run(service, "check", RAG_PORT=str(service.port), RAG_TLS_CERT="cert.pem")
    assert (code, shown) == (0, "0 of 0 indexes are well\n"), failed
    code, shown, failed = run(service, *NAMED, service.url, RAG_DATA_DIR=str(service.data_dir))
    assert (code, shown) == (0, "0 of 0 indexes are well\n"), failed


def test_neither_a_stranger_nor_another_certificate_at_the_same_address_is_believed(service, tmp_path):
    code, _, failed = run(service, *NAMED, service.url, cwd=tmp_path)
    assert code == 2
    assert "has a TLS certificate that is not trusted, unless RAG_CA_FILE names its authority" in failed
    other = write_pair(tmp_path, "rag.corp.example")
    code, _, failed = run(service, "check", RAG_PORT=str(service.port), RAG_TLS_CERT=str(other.cert))
    assert code == 2
    assert "has a TLS certificate that is not trusted" in failed


@pytest.mark.parametrize("running", [True, False])
def test_the_health_check_of_the_image_asks_by_tls(service, running):
    dockerfile = (PROJECT / "Dockerfile").read_text().replace("\\\n", "")
    asks = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", dockerfile, re.MULTILINE)[1])
    settings = environ(port=service.port if running else 1, tls_cert="cert.pem")
    done = subprocess.run([sys.executable, *asks[1:]], env=settings, capture_output=True, check=False)
    assert (done.returncode == 0) is running
