"""Secrets that people type into a form: kept encrypted, used, never shown, and nowhere in clear on the disk."""

import json
import uuid

import pytest
import structlog

from tests.interfaces.conftest import TYPED, lines_written
from tests.support.commands import files_holding
from wrapper.observing.logs import clean_lines


@pytest.fixture
def name(connection_id):
    return connection_id


@pytest.fixture
def logged(client):
    """All lines of the log, as they are written."""
    # Another app of this process may have set the log up anew since the one of all tests did.
    end = clean_lines(client.application.extensions["rag.layers"].connections.redacted)
    with lines_written() as lines:
        yield lines
    end()


def form(name, url, **config):
    return {"id": name, "type": "rag", "provider": "chromadb-wrapper", "config": {"url": url, **config}}


def test_a_form_is_judged_tested_and_kept_by_one_rule(client, name, service_behind):
    rules = {
        "mixed": (form(name, service_behind.url, api_key="Bearer ${OPENAI_API_KEY}"), ["/api_key"]),
        "default": (form(name, service_behind.url, api_key="${OPENAI_API_KEY:-sk}"), ["/api_key"]),
        "of the service": (form(name, service_behind.url, api_key="${RAG_SECRET_KEY}"), ["/api_key"]),
        "no known destination": (form(name, "${NO_SUCH_PLACE_URL}", api_key=TYPED), ["/url"]),
        "key in the path": (form(name, f"{service_behind.url}/a1B2c3D4e5F6g7H8i9J0", api_key=TYPED), ["/url"]),
        "typed": (form(name, service_behind.url, api_key=TYPED), []),
    }
    for label, (asked, pointers) in rules.items():
        candidate = {key: value for key, value in asked.items() if key != "id"}
        judged = client.post("/api/connections/validate", json=candidate).json
        tested = client.post("/api/connections/test", json=candidate).json
        kept = client.post("/api/connections", json=asked)
        assert sorted({each["pointer"] for each in judged["errors"]}) == pointers, label
        assert (judged["valid"], kept.status_code == 201) == (not pointers, not pointers), label
        failed = [stage for stage in tested["stages"] if stage["verdict"] == "failed"]
        if pointers:
            assert sorted({each["pointer"] for each in failed[0]["errors"]}) == pointers, label
            assert sorted({each["pointer"] for each in kept.json["details"]["errors"]}) == pointers, label
        else:
            assert [stage["name"] for stage in failed] in ([], ["authenticate"], ["capability"]), label


@pytest.mark.slow
def test_a_secret_in_clear_is_nowhere_on_the_disk_and_in_no_line_of_the_log(client, app, name, service_behind, logged):
    """Holds after it was made, tested, used, changed and deleted, and after requests that failed."""
    directory = app.extensions["rag.service"].settings.data_dir
    secrets = [f"sk-{what}-{uuid.uuid4().hex}" for what in ("first", "second", "refused", "tested")]
    first, second, refused, tested = secrets
    said = []

    def ask(method, path, body=None):
        answer = client.open(f"/api/connections{path}", method=method, **({} if body is None else {"json": body}))
        said.append(answer.text + str(answer.headers))
        assert files_holding(directory, *secrets) == []
        return answer.status_code

    url = service_behind.url
    assert ask("POST", "", form(name, url, api_key=first)) == 201
    shown = client.get(f"/api/connections/{name}").json
    assert (shown["secrets"], shown["stored_secrets"]) == ({"api_key": []}, ["api_key"])
    assert ask("POST", "", form(name, url, api_key=refused)) == 409
    assert ask("POST", "", form(f"{name} no", url, api_key=refused)) == 400
    assert ask("POST", "", form(f"{name}-2", url, api_key=refused, batch=refused)) == 400
    assert ask("POST", "", form(f"{name}-2", f"http://user:{refused}@host", api_key=refused)) == 400
    assert ask("POST", "/validate", {**form(name, url, api_key=[refused]), "id": None}) == 200
    assert ask("POST", "/rag/test", {"provider": "chromadb-wrapper", "config": {"url": url, "api_key": tested}}) == 200
    nobody = {"url": "http://127.0.0.1:1", "api_key": tested}
    assert ask("POST", "/rag/test", {"provider": "chromadb-wrapper", "config": nobody}) == 200
    assert ask("GET", f"/{name}/collections") == 200
    assert ask("PUT", f"/{name}", {"config": {"url": url, "api_key": second}}) == 200
    assert ask("PUT", f"/{name}", {"config": {"url": "http://elsewhere.example"}}) == 400
    assert ask("GET", f"/{name}/collections") == 200
    assert second in service_behind.requests[-1].decode()
    assert ask("DELETE", f"/{name}") == 200
    assert not [secret for secret in secrets if secret in "".join([*said, *logged])]


def test_a_log_line_does_not_repeat_a_secret_that_was_only_tested(client, logged, service_behind):
    key = f"sk-tested-{uuid.uuid4().hex}"
    asked = {"provider": "chromadb-wrapper", "config": {"url": service_behind.url, "api_key": key}}
    assert client.post("/api/connections/rag/test", json=asked).json["success"]
    structlog.get_logger("tests").error("a service said something", said=f"Bearer {key}")
    assert json.loads(logged[-1])["said"] == "Bearer ***"
