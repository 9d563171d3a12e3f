"""A failed test says what it is that answers, and what to do next."""

import ssl

import pytest
import trustme

from providers.outbound.json_client import JsonClient
from registry import trial_diagnosis
from tests.registry.hostile import SECRET, failed_stage, response, try_out
from tests.support.http_stub import running
from tests.support.live import PATIENCE_SECONDS
from tests.support.raw_server import raw_server, saying

CHROMA = {"/api/v2/heartbeat": {"nanosecond heartbeat": 1}}
OURS = {"/health": {"status": "healthy", "service": "rag-wrapper"}}
EMBEDS = {"/models": {"object": "list", "data": []}}
KEY = "${RAG_PLANTED_API_KEY}"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Have a slow machine look around as long as it takes, and no request wait before it is repeated."""
    monkeypatch.setattr(JsonClient, "_wait_seconds", lambda by, error, _: 0.0 if by._dialect.may_pass(error) else None)
    for name in ("LOOK_SECONDS", "LOOKS_SECONDS"):
        monkeypatch.setattr(trial_diagnosis, name, PATIENCE_SECONDS)


class Knowing:
    """A service that knows these paths, each with its JSON, or with a status and JSON; `requests` are the paths and headers that came."""

    def __init__(self, paths):
        self.paths, self.requests, self.url = paths, [], ""

    def answer(self, method, target, headers, body):
        self.requests.append((target, str(headers)))
        found = self.paths.get(target, (404, {}))
        status, said = found if isinstance(found, tuple) else (200, found)
        return status, {"Retry-After": "0"}, said


def knowing(paths, tls=None):
    return running(Knowing(paths), tls)


def told(report):
    stage = failed_stage(report)
    assert report.message == stage.message
    return f"{stage.message}. {stage.next_step}"


@pytest.mark.slow
def test_another_kind_of_service_a_wrong_tenant_and_a_wrong_scheme_are_told_from_a_wrong_address():
    with knowing(OURS) as server:
        said = told(try_out({"url": server.url, "api_key": KEY}, kind="rag", provider="chromadb"))
        assert said == (
            "“ChromaDB wrapper service” answers there, not “Chroma server”. "
            "Choose the provider “ChromaDB wrapper service” for this address, or correct the URL."
        )
        # Only the provider's own requests have the key.
        assert {path for path, headers in server.requests if SECRET in headers} == {"/api/v2/version"}
    with knowing({**CHROMA, "/api/v2/version": "1.5.9"}) as server:
        said = told(try_out({"url": server.url}, kind="rag", provider="chromadb"))
    assert said.endswith("Check Tenant and Database.")
    with knowing(CHROMA) as server:
        url = server.url.replace("http://", "https://")
        said = told(try_out({"url": url}, kind="rag", provider="chromadb"))
        assert said == "The service speaks http, not https. Begin the URL with http://."
        assert said == told(try_out({"url": url, "api_key": KEY}, kind="rerank", provider="cohere"))
        assert not any(SECRET in headers for _, headers in server.requests)


ONE_VECTOR = {"data": [{"index": 0, "embedding": [1.0, 0.5]}]}
TWO_SCORES = {"results": [{"index": 0, "relevance_score": 0.1}, {"index": 1, "relevance_score": 0.2}]}
TEI_SCORES = [{"index": n, "score": 0.5} for n in (0, 1)]
OLLAMA = {"/api/embed": {"embeddings": [[1.0, 0.5]]}}
CHATS = {"/v1/models": {"data": []}}
LISTED, ANY_OLLAMA = {"/v1/models": EMBEDS["/models"]}, {"/api/version": {"version": "1"}}
FAILED = "The service failed (HTTP 500). Look into the service's own log, and check the path of the URL and the model."
DETAIL = {"detail": [{"type": "missing", "loc": ["body", "user"], "msg": "Field required"}]}
USELESS = "The service answered something that could not be used."
LOOK = " Check that the URL leads to a service of this kind; the service's own log may say more."
SILENT = {**LISTED, "/v1/chat/completions": {"choices": [{"message": {"content": " "}}]}}
TWO = f"{USELESS} The embedding service 'openai' answered 2 embeddings for 1 texts.{LOOK}"
BEHIND = "behind host and port, without anything else."
PLAIN, SCORES = {"/plain/v1/embeddings": ONE_VECTOR}, {"/v1/rerank": TWO_SCORES}


@pytest.mark.parametrize(
    ("kind", "provider", "paths", "path", "next_step"),
    [
        ("rag", "chromadb", CHROMA, "/chroma", "Leave the path out of the URL."),
        ("embedding", "openai", LISTED | ANY_OLLAMA, "", "Put /v1 at the end of the URL."),
        ("embedding", "openai", EMBEDS, "", "Check Model."),
        ("rag", "chromadb", {}, "", "Check host, port and path of the URL, or choose another provider."),
        ("embedding", "openai", PLAIN, "/plain", "…/v1 answers. Put /v1 at the end of the URL."),
        ("embedding", "openai", PLAIN, "/plain/v1/embeddings", "Leave /embeddings out at the end of the URL."),
        ("embedding", "openai", PLAIN, "/plain/v1/v1/", "Leave /v1 out at the end of the URL."),
        ("embedding", "openai", {"/api/v1/embeddings": ONE_VECTOR}, "/v1", f"Put /api/v1 {BEHIND}"),
        ("embedding", "openai", {"/x/v3/embeddings": ONE_VECTOR}, "/x", "Put /v3 at the end of the URL."),
        ("embedding", "openai", PLAIN, "/plain/V1", "Write /v1 instead of /V1."),
        ("llm", "openai", CHATS, "/v1/chat", "Leave /chat out at the end of the URL."),
        ("embedding", "openai", PLAIN, "/plain//v1", "Leave the doubled slash out of the URL."),
        ("embedding", "ollama", OLLAMA, "/api/embed", "Leave the path out of the URL."),
        ("embedding", "ollama", OLLAMA, "/v1", "Leave the path out of the URL."),
        ("llm", "openai", CHATS, "/v1/chat/completions", "Leave /chat/completions out at the end of the URL."),
        ("llm", "openai", CHATS, "", "Put /v1 at the end of the URL."),
        ("rerank", "cohere", SCORES, "/v1/rerank", "Leave /rerank out at the end of the URL."),
        ("rerank", "cohere", SCORES | ANY_OLLAMA, "", "…/v1 answers. Put /v1 at the end of the URL."),
        ("rerank", "cohere", LISTED | {"/rerank": TWO_SCORES}, "/v1", "Leave the path out of the URL."),
        ("rerank", "cohere", LISTED | {"/v1/rerank": (422, DETAIL)}, "/v1", "the service's own log may say more."),
        ("rerank", "cohere", LISTED | ANY_OLLAMA, "", "and the names of model, tenant and database."),
        ("embedding", "openai", LISTED | {"/v1/embeddings": (500, {"error": "down"})}, "/v1", FAILED),
        ("embedding", "openai", LISTED | {"/v1/embeddings": {"data": ONE_VECTOR["data"] * 2}}, "/v1", TWO),
        ("llm", "openai", LISTED | {"/v1/chat/completions": {"error": "so not"}}, "/v1", USELESS + LOOK),
        ("llm", "openai", SILENT, "/v1", f"The chat service 'openai' answered without a message.{LOOK}"),
        ("rerank", "tei", {"/rerank": TEI_SCORES}, "/rerank", "Leave the path out of the URL."),
    ],
)
def test_the_next_step_depends_on_what_answers_nearby(kind, provider, paths, path, next_step):
    with knowing(paths) as server:
        said = told(try_out({"url": server.url + path, "api_key": KEY}, kind=kind, provider=provider))
    assert said.endswith(next_step)


def test_a_certificate_of_an_unknown_authority_is_told(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with knowing(CHROMA, context) as server:
        said = told(try_out({"url": server.url}, kind="rag", provider="chromadb"))
    assert said.startswith("The service's TLS certificate is not trusted here. ")


def test_a_name_that_nobody_knows_is_told_from_a_port_where_nobody_listens():
    with raw_server(saying(b"")) as server:
        closed = server.url
    for url, stage, words in (
        ("http://service.example", "address", "The name of the host is not known here. Check how the host is spelt"),
        (closed, "connect", "Nothing accepts connections at this host and port. "),
    ):
        report = try_out({"url": url})
        assert (failed_stage(report).name, report.error_type) == (stage, "network")
        assert told(report).startswith(words)


def test_credentials_that_are_missing_are_told_from_wrong_ones_and_a_success_says_whether_there_were_any():
    with raw_server(saying(response(b"{}", "401 Unauthorized"))) as server:
        assert "none are given" in told(try_out({"url": server.url}))
        assert "does not accept the credentials" in told(try_out({"url": server.url, "api_key": KEY}))
    with raw_server(saying(response())) as server:
        for config, words in (({}, "no credentials were given"), ({"api_key": KEY}, "with these")):
            report = try_out({"url": server.url, **config})
            [stage] = [stage for stage in report.stages if stage.name == "authenticate"]
            assert words in stage.message


@pytest.mark.parametrize("body", [b"[]", b'{"service": 7}', b"\xff" * 99_999])
def test_signs_may_be_anything(body):
    with raw_server(saying(response(body))) as server:
        assert try_out({"url": server.url}, kind="rag", provider="chromadb").error_type == "unknown"
