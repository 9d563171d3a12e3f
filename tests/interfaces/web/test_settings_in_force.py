import os

import pytest

from schemas.settings import SET_BY_FILE, apply_config_file, read_access_settings, read_wrapper_settings
from schemas.settings.in_force import settings_in_force

SECRET = "a-secret-that-nobody-is-told"


@pytest.fixture
def environ(monkeypatch):
    for name in [each for each in os.environ if each.startswith("RAG_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_each_setting_says_where_it_comes_from(environ, tmp_path):
    for name in ("RAG_THREADS", "RAG_CONFIG_FILE", SET_BY_FILE):
        environ.setenv(name, "")  # so that what the file sets is taken back after the test
        environ.delenv(name)
    environ.setenv("RAG_WORKERS", "3")
    file = tmp_path / "rag.yaml"
    file.write_text("workers: 4\nthreads: 8\n")
    apply_config_file(file)
    found = {each.name: each for each in settings_in_force([read_wrapper_settings()])}
    told = {
        name: (found[name].value, found[name].default, found[name].origin) for name in ("RAG_WORKERS", "RAG_THREADS")
    }
    assert told == {"RAG_WORKERS": ("3", "2", "environment"), "RAG_THREADS": ("8", "16", "file")}
    assert (found["RAG_PORT"].value, found["RAG_PORT"].origin) == ("5006", "default")


def test_neither_secrets_nor_places_of_files_are_told(environ, tmp_path):
    key_file = tmp_path / "admin.key"
    key_file.write_text(SECRET)
    environ.setenv("RAG_API_KEY_FILE", str(key_file))
    environ.setenv("RAG_CATALOG_URL", f"postgresql+psycopg://rag:{SECRET}@db/rag")
    environ.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    found = {each.name: each for each in settings_in_force([read_wrapper_settings(), read_access_settings()])}
    assert SECRET not in repr(found)
    assert str(tmp_path) not in repr(found)
    assert (found["RAG_CATALOG_URL"].is_secret, found["RAG_CATALOG_URL"].value) == (True, None)
    assert found["RAG_DATA_DIR"].value == "…/data"
    assert found["RAG_API_KEY_FILE"].value == "…/admin.key"


def test_the_route_lists_all_settings(app, client):
    told = client.get("/api/settings").json["settings"]
    assert {each["name"] for each in told} >= {"RAG_PORT", "RAG_ACCESS", "RAG_OIDC_ISSUER", "RAG_FUSION", "RAG_TOPIC"}
    assert str(app.extensions["rag.service"].settings.data_dir) not in repr(told)


def test_a_service_that_runs_calls_default_what_nobody_has_set(live, session):
    told = {each["name"]: each for each in session.get(f"{live.url}/api/settings").json()["settings"]}
    assert {told[name]["origin"] for name in ("RAG_CATALOG_URL", "RAG_BACKUP_DIR", "RAG_WORKERS")} == {"default"}
    assert told["RAG_PORT"]["origin"] == "environment"
