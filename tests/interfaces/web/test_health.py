"""What a service says of itself: `/health`, the context tools and what pre-validation reads agree; `/api/settings`."""

import os

import pytest

from schemas.settings import SET_BY_FILE, apply_config_file, read_access_settings, read_wrapper_settings
from schemas.settings.in_force import settings_in_force
from tests.support.live import eventually

KEY = "sk-planted-in-the-environment"


@pytest.fixture(scope="module")
def app(app_of_models):
    """It asks its models all the time."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAG_EMBEDDING_API_KEY", KEY)
        yield app_of_models(look_seconds=0.05)


def told(client):
    """(`/health`, `rag_context_health`) as soon as both report the same check; they must agree on it."""

    def asked():
        both = client.get("/health").json, client.post("/tools/rag_context_health").json
        said = [(each["healthy"], each["embedding"].get("error"), each["chat"].get("error")) for each in both]
        return both if said[0] == said[1] else None

    return eventually(asked)


def test_uploads_that_fail_again_and_again_degrade_the_connection_that_answers(app, client, monkeypatch):
    told(client)
    monkeypatch.setattr(app.extensions["rag.layers"].jobs, "failed_texts", lambda **asked: ["new"] * 2)
    eventually(lambda: client.get("/health").json["embedding"].get("error", "").startswith("Short texts are embedded"))
    all_of_them = client.get("/api/connections/health").json["connections"]
    for each in (client.get("/api/connections/default/health").json, *all_of_them):
        says_so = "2 files wait whose texts failed again and again" in each["message"]
        assert (each["status"], says_so) == (("degraded", True) if each["id"] == "default" else ("healthy", False))


@pytest.mark.slow
def test_models_that_are_down_degrade_the_service_by_name_and_never_what_it_stores(client, models):
    service, tools = told(client)
    assert (service["status"], service["healthy"], tools["healthy"]) == ("healthy", True, True)
    assert service["embedding"]["status"] == service["chat"]["status"] == "healthy"
    assert tools["embedding"]["healthy"] is tools["chat"]["healthy"] is True
    models.is_down = True
    try:
        eventually(lambda: client.get("/health").json["embedding"]["status"] == "unhealthy")
        eventually(lambda: client.get("/health").json["chat"]["status"] == "unhealthy")
        service, tools = told(client)
        assert (service["status"], service["healthy"], tools["healthy"]) == ("degraded", False, False)
        for part in ("embedding", "chat"):
            assert service[part]["error"]
            assert KEY not in str(service[part])
        assert (client.get("/health").status_code, client.get("/ready").status_code) == (200, 200)
    finally:
        models.is_down = False
    eventually(lambda: client.get("/health").json["healthy"])


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
