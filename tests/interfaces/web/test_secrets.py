"""The text of a request is never taken for a placeholder, and leaves nothing open behind it."""

import uuid
from contextlib import contextmanager
from urllib.parse import quote

import orjson
import pytest
from flask.testing import FlaskClient

from interfaces.mcp.tools import mcp_tools
from schemas.errors import RagError
from schemas.field_names import Unknown
from tests.interfaces.conftest import lines_written
from tests.support.contract import Contract
from tests.support.live import eventually
from tests.support.walked import example, places, put_in

PLANTED = {
    "RAG_CHAT_API_KEY": "sk-planted-chat-51c2",
    "RAG_EMBEDDING_API_KEY": "sk-planted-embedding-77ab",
    "SECRET_API_KEY": "sk-planted-secret-0f3e",
}
IN_A_FILE = "sk-planted-in-a-file-6d2c"
CONTRACT = Contract.load()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, app_of_models):
    """The service whose embeddings and chat are the stub's, and whose environment and files hold what nobody may see."""
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "key").write_text(IN_A_FILE)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PLANTED.items():
            patch.setenv(name, value)
        app = app_of_models(
            secret_dirs=(str(secrets),),
            secret_hosts=("SECRET_API_KEY=good.example", f"file:{secrets}/key=good.example"),
        )
        app.planted_file = secrets / "key"
        yield app


@pytest.fixture
def asking(guarded, models):
    """A client; `asking.said()` returns the bodies that the stub has received since."""
    client = guarded.test_client()
    before = len(models.requests)
    client.said = lambda: [each.body for each in models.requests[before:]]
    return client


def selected(**more):
    return [{"service": "local", "name": "nothing", **more}]


@pytest.mark.parametrize("model", ["${RAG_CHAT_API_KEY}", "${SECRET_API_KEY}", "${file:/run/secrets/key}", "a$$b"])
def test_the_model_of_a_request_is_sent_as_it_is(asking, model):
    answered = asking.post("/api/chat", json={"message": "hello", "model": model})
    collected = asking.post(
        "/api/collect", json={"userMessage": f"hello {model}", "selectedCollections": selected(embedding_model=model)}
    )
    assert (answered.status_code, collected.status_code) == (200, 200)
    eventually(lambda: [body["model"] for body in asking.said()] == [model, model])


def resolve(reference):
    return CONTRACT.at(tuple(reference.removeprefix("#/").split("/")))


def operations():
    """Yield (method, path, parameters, schema of a JSON body or None) of every route."""
    for path, method in sorted(CONTRACT.described()):
        item = CONTRACT.document["paths"][path]
        operation = item[method.lower()]
        named = [*item.get("parameters", ()), *operation.get("parameters", ())]
        parameters = [resolve(each["$ref"]) if "$ref" in each else each for each in named]
        body = operation.get("requestBody", {})
        body = resolve(body["$ref"]) if "$ref" in body else body
        yield method, path, parameters, body.get("content", {}).get("application/json", {}).get("schema")


def requests_of(method, path, parameters, schema, probe):
    """Yield requests with the probe in one place each, as (path and query, body), for every place that takes text."""
    words = {each["name"]: "word" for each in parameters if each["in"] == "path"}
    least = None if schema is None else example(schema, resolve)
    needed = {
        each["name"]: example(each.get("schema", {}), resolve)
        for each in parameters
        if each["in"] == "query" and each.get("required")
    }

    def spelled(in_path, in_query):
        target = path
        for name, word in in_path.items():
            target = target.replace(f"{{{name}}}", quote(str(word), safe=""))
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in in_query.items())
        return target + (f"?{query}" if query else "")

    for parameter in parameters:
        if parameter["in"] == "path":
            yield spelled({**words, parameter["name"]: probe}, needed), {}, least
        elif parameter["in"] == "query":
            yield spelled(words, {**needed, parameter["name"]: probe}), {}, least
        elif parameter["in"] == "header":
            yield spelled(words, needed), {parameter["name"]: probe}, least
    for place in dict.fromkeys(places(schema or {}, resolve)):
        yield spelled(words, needed), {}, put_in(least, place, probe)


@contextmanager
def nothing_leaves(guarded, models):
    """Fail when a planted secret is in one of the answers put into the list, in the log, or has reached the stub.

    The stub may receive it only as the key of the service's own connections.
    """
    answers, before = [], len(models.requests)
    with lines_written() as lines:
        yield answers
    received = [f"{each.path} {each.body}" for each in models.requests[before:]]
    headers = [str(each.headers) for each in models.requests[before:]]
    planted = (*PLANTED.values(), IN_A_FILE)
    assert [each for each in [*answers, *lines, *received] if any(value in each for value in planted)] == []
    assert [each for each in headers if PLANTED["SECRET_API_KEY"] in each or IN_A_FILE in each] == []


def probes(guarded):
    return (
        "${SECRET_API_KEY}",
        f"${{file:{guarded.planted_file}}}",
        "http://${SECRET_API_KEY}/",
        "${RAG_CHAT_API_KEY}",
    )


def room(path):
    """Return the beginning of a path, by which routes are tried together."""
    return "/".join(path.split("/")[: 3 if path.startswith("/api/") else 2])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("beginning", sorted({room(path) for _, path, _, _ in operations()}))
def test_no_text_of_a_request_is_ever_resolved(guarded, models, beginning):
    client = FlaskClient(guarded, guarded.response_class)  # a path with a probe in it may be no route
    whole, file, *_ = probes(guarded)
    with nothing_leaves(guarded, models) as answers:
        for method, path, parameters, schema in operations():
            if room(path) != beginning:
                continue
            for probe in (whole, f"http://${{RAG_CHAT_API_KEY}}/{file}"):
                for target, headers, body in requests_of(method, path, parameters, schema, probe):
                    content = {} if schema is None else {"data": orjson.dumps(body), "content_type": "application/json"}
                    answer = client.open(target, method=method, headers=headers, **content)
                    is_foreseen = answer.status_code < 500 or answer.status_code in (501, 503)
                    assert is_foreseen, (method, target, body, answer.text)
                    answers.append(f"{method} {target} {answer.text} {answer.headers}")
    for each in client.get("/api/connections").json["connections"]:
        if each["origin"] == "stored":
            client.delete(f"/api/connections/{each['id']}")


@pytest.mark.slow
def test_no_argument_of_a_tool_is_ever_resolved(guarded, models):
    """What MCP offers has those that are called over HTTP, too."""
    asked = 0
    with nothing_leaves(guarded, models) as answers:
        for tool in mcp_tools(guarded.extensions["rag.layers"]).values():
            least = example(tool.input_schema, resolve)
            for place in dict.fromkeys(places(tool.input_schema, resolve)):
                for probe in probes(guarded):
                    arguments = put_in(least, place, probe)
                    asked += 1
                    try:
                        answers.append(str(tool.spell(tool.run(tool.check(arguments, Unknown())))))
                    except RagError as error:
                        answers.append(f"{error.message} {error.details}")
    assert asked > 20


def forms(guarded, models):
    """Yield configurations of every provider that lead to the stub, with a probe in one field each."""
    for entry in guarded.extensions["rag.layers"].registry.entries():
        fields = {} if entry.provider is None else entry.provider.connection_schema()["properties"]
        address = {"url": f"{models.url}/v1"} if "url" in fields else {}
        for name in fields:
            for probe in probes(guarded):
                yield entry, {**address, name: probe}
        if address:
            yield entry, {"url": f"{models.url}/${{SECRET_API_KEY}}"}
            yield entry, {**address, "api_key": "${SECRET_API_KEY}"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_secret_bound_to_its_host_leaves_by_no_form(guarded, models):
    """In forms of connections placeholders are allowed by design, but their values go to their own host only."""
    client = guarded.test_client()
    with nothing_leaves(guarded, models) as answers:
        for entry, config in forms(guarded, models):
            name = f"walk-{uuid.uuid4().hex[:8]}"
            asked = {"provider": entry.id, "config": config}
            said = [
                client.post("/api/connections/test", json={"type": entry.kind, **asked}),
                client.post("/api/connections/validate", json={"type": entry.kind, **asked}),
                client.post("/api/connections", json={"id": name, "type": entry.kind, **asked}),
            ]
            if entry.kind != "rag":
                said.append(client.post(f"/api/connections/{entry.kind}/discovery/models", json=asked))
            if said[2].status_code == 201:
                said.append(client.get(f"/api/connections/{name}/health"))
                said.append(client.put(f"/api/connections/{name}", json={"config": config}))
                client.delete(f"/api/connections/{name}")
            answers.extend(each.text for each in said)


def test_a_secret_goes_to_the_host_it_is_bound_to_and_nowhere_else(guarded, models):
    """Prove that the walk above would find a leak: unbound, the same form does send its secret."""
    client, before = guarded.test_client(), len(models.requests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FREE_API_KEY", "sk-planted-free")
        asked = {"provider": "openai", "config": {"url": f"{models.url}/v1", "api_key": "${FREE_API_KEY}"}}
        assert client.post("/api/connections/embedding/test", json=asked).json["success"]
    assert "sk-planted-free" in str(models.requests[before:][-1].headers)
