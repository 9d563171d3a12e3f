"""The settings of the identity provider, and sentences that name what is wrong."""

import os

import pytest

from schemas.errors import ConfigurationError
from schemas.settings import OidcSettings, apply_config_file, read_oidc_settings
from schemas.settings.oidc import may_be_asked


@pytest.fixture(autouse=True)
def environ(monkeypatch):
    """The environment without settings; a test's changes are undone afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    monkeypatch.setattr(os, "environ", kept)
    return kept


def test_there_is_no_issuer_unless_one_is_named():
    assert read_oidc_settings() == OidcSettings()
    assert not read_oidc_settings().has_users


@pytest.mark.parametrize(
    "issuer",
    [
        "https://login.example",
        "https://company.eu.auth0.com/",
        "https://login.example:8443/realms/company",
        "http://127.0.0.1:8080/realms/a",
        "http://localhost:8080",
        "http://[::1]:8080",
    ],
)
def test_an_issuer_stays_as_it_is_written(environ, issuer):
    environ |= {"RAG_OIDC_ISSUER": issuer, "RAG_OIDC_AUDIENCE": " https://rag.example/mcp , rag,"}
    read = read_oidc_settings()
    assert (read.oidc_issuer, read.oidc_audience) == (issuer, ("https://rag.example/mcp", "rag"))
    assert read.has_users


@pytest.mark.parametrize(
    "issuer",
    [
        "login.example",
        "http://login.example",
        "http://10.0.0.7:8080",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example",
        "https://",
        "https://me:secret@login.example",
        "https://login.example?p=x",
        "https://login.example#x",
        "https://login.example/a b",
        "https://login.example\\@127.0.0.1",
        "https://log\u0456n.example",
        "ftp://login.example",
        "https://[login",
        f"https://login.example/{'x' * 1_000}",
    ],
)
def test_an_issuer_that_cannot_be_trusted_stops_the_start(environ, issuer):
    environ |= {"RAG_OIDC_ISSUER": issuer, "RAG_OIDC_AUDIENCE": "rag"}
    with pytest.raises(ConfigurationError, match="RAG_OIDC_ISSUER: Must be an https URL") as raised:
        read_oidc_settings()
    assert "secret" not in raised.value.message


@pytest.mark.parametrize("audience", [None, "", " , "])
def test_an_issuer_needs_an_audience(environ, audience):
    environ["RAG_OIDC_ISSUER"] = "https://login.example"
    if audience is not None:
        environ["RAG_OIDC_AUDIENCE"] = audience
    with pytest.raises(ConfigurationError, match="RAG_OIDC_AUDIENCE must name"):
        read_oidc_settings()


@pytest.mark.parametrize("name", ["RAG_OIDC_AUDIENCE", "RAG_OIDC_CLAIMS"])
def test_without_an_issuer_the_others_mean_nothing(environ, name):
    environ[name] = "x"
    with pytest.raises(ConfigurationError, match="mean nothing without RAG_OIDC_ISSUER"):
        read_oidc_settings()


def test_the_configuration_file_may_set_them(tmp_path):
    file = tmp_path / "rag.yaml"
    file.write_text("oidc_issuer: https://login.example\noidc_audience: [a, b]\n")
    apply_config_file(file)
    assert read_oidc_settings() == OidcSettings("https://login.example", ("a", "b"))


def test_keys_may_be_anywhere_that_is_safe():
    assert may_be_asked("https://www.keys.example/certs?a=b")
    assert not may_be_asked("http://www.keys.example/certs")
    assert not may_be_asked("https://")
