"""Connections in a browser without scripts: forms made of schemas, tests, models, and what hostile services say."""

import pytest

from registry.stored_connections import StoredConnections
from schemas.connections import Connection
from tests.interfaces.conftest import answering
from tests.interfaces.console.conftest import Reader

SECRET = "sk-planted-7d20"
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture
def name(connection_id):
    return connection_id


@pytest.fixture
def made(client, name):
    """`made(type, provider, config)` makes a connection through the wire."""

    def make(kind, provider, config, **more):
        body = {"id": name, "type": kind, "provider": provider, "config": config, **more}
        answer = client.post("/api/connections", json=body)
        assert answer.status_code == 201, answer.json
        return name

    return make


def hostile_service():
    """Run what speaks like this service, and has markup in everything that it says."""
    listed = {"collections": [{"name": MARKUP, "count": 7, "metadata": {MARKUP: MARKUP}}]}
    said = {"error": MARKUP, "message": MARKUP}
    routes = {"/health": {"status": "healthy", "version": MARKUP}, "/collections": listed}
    return answering(routes, otherwise=said, status="500 Internal Server Error")


def inputs(page):
    return {each["name"]: each for each in page.all("input") + page.all("select") if "name" in each}


def check_harmless(page, text):
    """Fail when markup that somebody else said has become elements of the page."""
    assert "<img src=x" not in text
    assert all("onerror" not in attributes for _, attributes in page.elements)
    assert all(each.get("type") == "module" and each.get("src") for each in page.all("script"))


def test_only_who_may_define_connections_sees_them_and_nobody_changes_those_of_the_service(signed_in, admin):
    reader, connecting = signed_in(scopes=["read"]), signed_in(scopes=["read", "connect"])
    assert "Connections" not in reader.read("/ask").text
    assert reader.get("/connections").status_code == 403
    assert "Connections" in connecting.read("/ask").text
    assert "Storage of this service" in connecting.read("/connections").text
    page = admin.read("/connections/local")
    assert "built-in" in page.text
    assert "config.match_threshold" not in inputs(page)
    assert admin.post("/connections/local", of="/new-connection", do="save").status_code == 409


def test_every_provider_has_a_card_and_a_form_with_a_label_for_every_field(admin, client):
    offered = client.get("/api/connections/providers").json
    cards = admin.read("/new-connection")
    for kind in ("rag", "embedding", "llm", "rerank"):
        for provider in offered[kind]:
            assert provider["description"] in cards.text
            page = admin.read(f"/new-connection/{kind}/{provider['id']}")
            labelled = {each["for"] for each in page.all("label")}
            ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
            assert len(ids) == len(set(ids))
            shown = inputs(page)
            for field in provider["schema"]["fields"]:
                told = shown[f"config.{field['name']}"]
                assert told["id"] in labelled
                assert set(told["aria-describedby"].split()) <= set(ids)
                assert field["description"] in page.text
                if field["secret"]:
                    assert (told["type"], told["value"]) == ("password", "")
            assert [each["value"] for each in page.all("input") if each.get("name") == "choice"] == [
                each["title"] for each in provider["schema"]["choices"]
            ]


def test_faults_stand_at_their_fields_and_what_was_typed_stays_except_secrets(admin, name):
    typed = {"config.url": "ftp://x", "config.timeout_seconds": "soon", "config.api_key": SECRET, "id": name}
    tried = Reader(admin.post("/new-connection/rag/chromadb", do="test", **typed).text)
    assert "Correct the fields that are named." in tried.text
    assert inputs(tried)["config.url"]["aria-invalid"] == "true"
    answer = admin.post("/new-connection/rag/chromadb", do="save", **typed)
    page = Reader(answer.text)
    assert answer.status_code == 400
    assert "URL must be http(s)://" in page.text
    assert "Timeout must be a number" in page.text
    shown = inputs(page)
    assert (shown["config.url"]["aria-invalid"], shown["config.url"]["value"]) == ("true", "ftp://x")
    assert shown["id"]["value"] == name
    assert "open" in next(attributes for tag, attributes in page.elements if tag == "details")
    assert SECRET not in answer.text


def test_a_secret_is_stored_kept_and_removed_without_being_shown(admin, client, name):
    path = f"/connections/{name}"
    url = {"config.url": "http://127.0.0.1:9/v1"}
    typed = {**url, "config.api_key": SECRET, "id": name, "display_name": "Mine", "shared": "1"}
    saved = admin.post("/new-connection/embedding/openai", do="save", **typed)
    assert (saved.status_code, saved.location) == (303, f"/console{path}?saved=1")
    page = admin.read(path)
    assert "Stored, not shown." in page.text
    assert inputs(page)["config.api_key"]["value"] == ""

    assert admin.post(path, do="save", display_name="Yours", **{**url, "config.model": "m"}).status_code == 303
    changed = client.get(f"/api/connections/{name}").json
    assert (changed["stored_secrets"], changed["display_name"], changed["shared"]) == (["api_key"], "Yours", False)
    assert changed["config"] == {"url": "http://127.0.0.1:9/v1", "model": "m"}

    moved = admin.post(path, do="save", **{"config.url": "http://127.0.0.1:10/v1"})
    assert moved.status_code == 400
    assert "must be given again" in Reader(moved.text).text

    assert admin.post(path, do="save", **url, **{"remove.api_key": "1"}).status_code == 303
    assert client.get(f"/api/connections/{name}").json["secrets"] == {}


def test_a_form_that_was_filled_in_before_a_connection_changed_says_so_and_keeps_what_was_typed(admin, client, made):
    path = f"/connections/{made('embedding', 'openai', {'url': 'http://127.0.0.1:9/v1'}, display_name='First')}"
    fields = {"do": "save", "config.url": "http://127.0.0.1:9/v1", "config.model": "m"}
    seen = inputs(admin.read(path))["seen"]["value"]
    assert admin.post(path, seen=seen, display_name="Theirs", **fields).status_code == 303
    refused = admin.post(path, seen=seen, display_name="Mine", **fields)
    page = inputs(Reader(refused.text))
    assert (refused.status_code, page["display_name"]["value"]) == (409, "Mine")
    assert "has changed since you opened it" in Reader(refused.text).text
    assert client.get(f"/api{path}").json["display_name"] == "Theirs"
    tried = inputs(Reader(admin.post(path, seen=seen, **(fields | {"do": "test"})).text))
    assert tried["seen"]["value"] == seen, "a test has told nobody of the change"
    assert admin.post(path, seen=page["seen"]["value"], display_name="Mine", **fields).status_code == 303
    assert client.get(f"/api{path}").json["display_name"] == "Mine"


def test_a_secret_may_be_a_variable_that_is_suggested(admin, client, name, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    path = "/new-connection/embedding/openai"
    assert "${OPENAI_API_KEY}" in [each["value"] for each in admin.read(path).all("option")]
    chosen = {"variable.api_key": "${OPENAI_API_KEY}", "config.url": "http://127.0.0.1:9/v1"}
    assert admin.post(path, do="save", id=name, **chosen).status_code == 303
    assert client.get(f"/api/connections/{name}").json["secrets"] == {"api_key": ["OPENAI_API_KEY"]}
    assert "It comes from OPENAI_API_KEY." in admin.read(f"/connections/{name}").text


def test_one_of_the_choices_counts_and_is_chosen_again(admin, client, name):
    both = {"config.url": "http://127.0.0.1:9", "config.path": "books", "choice": "A Qdrant server", "id": name}
    assert admin.post("/new-connection/rag/qdrant", do="save", **both).status_code == 303
    assert client.get(f"/api/connections/{name}").json["config"] == {"url": "http://127.0.0.1:9"}
    server, folder = "A Qdrant server", "An embedded Qdrant in a folder of this service"
    for place, choice in (({"url": "http://127.0.0.1:9"}, server), ({"path": "books"}, folder)):
        body = {"config": place | {"api_key": "${QDRANT_API_KEY}"}}
        assert client.put(f"/api/connections/{name}", json=body).status_code == 200
        chosen = [each for each in admin.read(f"/connections/{name}").all("input") if "checked" in each]
        assert [each["value"] for each in chosen if each.get("name") == "choice"] == [choice]


def test_a_test_shows_its_stages_and_a_stored_secret_counts_in_it_without_being_shown(admin, models, made):
    typed = {"config.url": f"{models.url}/v1", "config.api_key": SECRET, "config.model": "stub"}
    answer = admin.post("/new-connection/embedding/openai", do="test", **typed)
    page = Reader(answer.text)
    assert answer.status_code == 200
    for words in ("The service answers, with these credentials", "The service does what it is for", "It works"):
        assert words in page.text
    assert "/api/connections/embedding/test" in page.text
    assert SECRET not in answer.text
    name = made("embedding", "openai", {"url": f"{models.url}/v1", "api_key": SECRET, "model": "stub"})
    answer = admin.post(f"/connections/{name}", do="test", **{"config.url": f"{models.url}/v1", "config.model": "stub"})
    assert "The service answers, with these credentials" in Reader(answer.text).text
    elsewhere = admin.post(f"/connections/{name}", do="test", **{"config.url": "http://127.0.0.1:9/v1"})
    assert "must be given again" in Reader(elsewhere.text).text


def test_a_connection_is_deleted_after_what_depends_on_it_was_shown(admin, client, made):
    name = made("rag", "chromadb", {"url": "http://127.0.0.1:9", "api_key": SECRET}, shared=True)
    page = admin.read(f"/connections/{name}/delete")
    assert "those of others too" in page.text
    assert "api_key is forgotten" in page.text
    answer = admin.post(f"/connections/{name}/delete")
    assert (answer.status_code, answer.location) == (303, f"/console/connections?deleted={name}")
    assert client.get(f"/api/connections/{name}").status_code == 404


@pytest.mark.slow
def test_what_a_hostile_service_says_stays_text(admin, made):
    with hostile_service() as server:
        url = server.url
        name = made("rag", "chromadb-wrapper", {"url": url}, display_name=MARKUP)
        for path in ("/connections", f"/connections/{name}", f"/connections/{name}/delete"):
            answer = admin.get(path)
            check_harmless(Reader(answer.text), answer.text)
            assert MARKUP in Reader(answer.text).text, path
        answer = admin.post(f"/connections/{name}", do="test", **{"config.url": f"{url}/nowhere"})
        check_harmless(Reader(answer.text), answer.text)
        answer = admin.post(f"/connections/{name}", do="test", **{"config.url": url})
        assert MARKUP in Reader(answer.text).text
        check_harmless(Reader(answer.text), answer.text)


def test_what_somebody_typed_stays_text(admin, client, name):
    fields = dict.fromkeys(("id", "display_name", "config.url", "config.tenant", "config.timeout_seconds"), MARKUP)
    for do in ("save", "test", "models"):
        answer = admin.post("/new-connection/rag/chromadb", do=do, **fields)
        page = Reader(answer.text)
        check_harmless(page, answer.text)
        assert inputs(page)["config.tenant"]["value"] == MARKUP
    for path in (f"/connections/{MARKUP}", f"/new-connection/rag/{MARKUP}", "/new-connection/nothing/chromadb"):
        answer = admin.get(path)
        assert answer.status_code == 404
        check_harmless(Reader(answer.text), answer.text)


def test_a_connection_whose_provider_is_gone_says_so_and_can_be_deleted(app, admin, client, name):
    stored = StoredConnections(app.extensions["rag.service"].catalog)
    stored.add(Connection(name, "rag", "lost-provider", {"url": "http://127.0.0.1:1", "password": SECRET}))
    page = admin.get(f"/connections/{name}")
    assert page.status_code == 200
    assert "lost-provider</code> is not installed here" in page.text
    assert SECRET not in page.text
    path = f"/connections/{name}/delete"
    assert [each["href"] for each in Reader(page.text).all("a") if each["href"].endswith(path)]
    assert name in admin.read("/connections").text
    assert admin.get(path).status_code == 200
    assert admin.post(path).status_code == 303
    assert client.get(f"/api/connections/{name}").status_code == 404


def test_answers_go_on_from_what_was_said_by_the_connection_that_is_used(admin, signed_in, made, client, models):
    name, of = made("llm", "openai", {"url": f"{models.url}/v1", "model": "another"}), "/new-connection/llm/openai"
    assert "Use for answers" not in signed_in(scopes=["connect"]).read("/connections").text
    for use in ("1", "0", "1"):
        assert admin.post(f"/connections/{name}/answers", of="/connections", answers=use).status_code == 303
        assert client.get(f"/api/connections/{name}").json["chat_model"] is (use == "1")
    assert "Answers questions" in admin.read("/connections").text
    assert inputs(admin.read("/answer", q="How long?"))["q"]["value"] == "How long?"
    conversation = ""
    for question in ("How long?", "And then?"):
        page = Reader(admin.post("/answer", of=of, q=question, conversation=conversation).text)
        conversation = inputs(page)["conversation"]["value"]
    assert page.text.index("How long?") < page.text.index("And then?", page.text.index("How long?"))
    assert client.put(f"/api/connections/{name}", json={"config": {"url": "${NO_SUCH_URL}"}}).status_code == 200
    answer = admin.post("/answer", of=of, q="How long?")
    alert = answer.text.partition('role="alert"')[2]
    assert (answer.status_code, 'href="/console/connections"' in alert) == (503, True)
