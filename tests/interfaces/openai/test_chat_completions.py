"""`/v1/chat/completions` as OpenAI's clients ask it, without those clients, and what conversations may be called."""

import json
import uuid
from urllib.parse import quote

import pytest

from providers.outbound.json_client import JsonClient
from retrieval.chat.answering import ChatUnavailableError
from retrieval.search.asking import failure_of
from schemas import errors
from schemas.contracts.rule_documents import VectorDBFullError
from schemas.wire.openai.errors import error_headers
from tests.support.model_server import Answer, as_events, as_json, chat_answer
from wrapper.engine.failures import EngineAccessError

QUESTION = [{"role": "user", "content": "How long are backups kept?"}]
CITING = "Thirty days [1], or so [2]."
PLAIN = {"vector_store_ids": None, "tools": None}


@pytest.fixture(scope="module")
def app(app_of_models):
    return app_of_models()


@pytest.fixture(scope="module")
def handbook(app, text_collection):
    """A collection of two documents that the service itself embedded, its id as a vector store."""
    texts = {"backups": "Backups are kept for thirty days.", "coffee": "The coffee machine is cleaned on Friday."}
    name = text_collection({each: (text, {"title": each, "n": n}) for n, (each, text) in enumerate(texts.items())})
    return name, f"vs_{app.test_client().get(f'/collections/{name}').json['id'].replace('-', '')}"


@pytest.fixture
def complete(client, models, models_up, handbook):
    def complete(status=200, **body):
        asked = {"model": "rag", "messages": QUESTION, "vector_store_ids": [handbook[0]], **body}
        answer = client.post("/v1/chat/completions", json=asked)
        assert answer.status_code == status, answer.data
        assert answer.headers.get("x-should-retry") == {200: None, 503: "true"}.get(status, "false")
        return answer if body.get("stream") and status == 200 else answer.json

    return complete


@pytest.fixture
def said(models):
    """`said()`: the body of the last request to the chat model."""
    return lambda: next(each.body for each in reversed(models.requests) if each.path == "/v1/chat/completions")


def chunks(answer):
    *events, done, rest = answer.get_data(as_text=True).split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(each.removeprefix("data: ")) for each in events]


def test_rag_answers_from_the_documents_of_the_stores(client, complete, models, said, handbook):
    assert [each["id"] for each in client.get("/v1/models").json["data"]][:2] == ["rag", "chatty"]
    models.script = [models.routes["/v1/embeddings"], lambda body: chat_answer(body, CITING)]
    answer = complete()
    assert answer["choices"][0]["message"]["content"] == CITING
    assert (answer["object"], answer["model"]) == ("chat.completion", "rag")
    assert [(each["number"], each["valid"]) for each in answer["rag"]["citations"]] == [(1, True), (2, True)]
    assert {each["collection"] for each in answer["rag"]["sources"]} == {handbook[0]}
    assert said()["model"] == "chatty"
    assert "thirty days" in said()["messages"][0]["content"]
    assert "usage" not in answer


def test_stores_go_by_their_ids(complete, handbook):
    stores = {"vector_store_ids": [handbook[1]]}
    for asked in (stores, {**PLAIN, "tools": [{"type": "file_search", **stores}]}):
        assert {each["collection"] for each in complete(**asked)["rag"]["sources"]} == {handbook[0]}


def test_an_expired_store_answers_nothing(complete, app, handbook):
    facts, collection_id = app.extensions["rag.layers"].store_facts, str(uuid.UUID(handbook[1].removeprefix("vs_")))
    facts.keep(collection_id, {"expires_days": -1})
    try:
        for each in handbook:
            assert complete(400, vector_store_ids=[each])["error"]["code"] == "vector_store_expired"
        complete(model="chatty", **PLAIN)
    finally:
        facts.forget(collection_id)
    assert complete()["rag"]["sources"]


def test_a_tool_says_what_is_searched(complete):
    def sources(**tool):
        answer = complete(model="chatty", vector_store_ids=None, tools=[{"type": "file_search", **tool}])
        return sorted(each["documentId"] for each in answer["rag"]["sources"])

    assert set(sources()) >= {"backups", "coffee"}
    assert sources(filters={"type": "eq", "key": "title", "value": "coffee"}) == ["coffee"]
    both = [{"type": "in", "key": "title", "value": ["coffee", "x"]}, {"type": "gte", "key": "n", "value": 1}]
    assert sources(filters={"type": "and", "filters": both}) == ["coffee"]
    assert len(sources(max_num_results=1)) == 1


def test_a_plain_model_asks_no_documents_and_gets_the_options_and_the_content_in_one_piece(complete, said):
    answer = complete(model="chatty", messages=[{"role": "developer", "content": "Be short."}, *QUESTION], **PLAIN)
    assert answer["choices"][0]["message"]["content"] == "So it is."
    assert "rag" not in answer
    assert said()["messages"] == [{"role": "system", "content": "Be short."}, *QUESTION]
    options = {"temperature": 0.5, "top_p": 0.9, "stop": ["x"], "seed": 7}
    complete(model="chatty", **PLAIN, **options, max_completion_tokens=9, user="me", store=False, metadata={"a": "b"})
    sent = said()
    assert {name: sent[name] for name in options} == options
    assert 9 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert not {"user", "store", "metadata"} & said().keys()
    parts = [{"type": "text", "text": "How long"}, {"type": "text", "text": "are backups kept?"}]
    complete(model="chatty", **PLAIN, messages=[{"role": "user", "content": parts}])
    assert said()["messages"][-1]["content"] == "How long\nare backups kept?"


def test_a_stream_says_the_same_in_pieces(complete, models):
    models.script = [models.routes["/v1/embeddings"], lambda body: chat_answer(body, CITING)]
    whole = complete()
    models.script = [lambda body: chat_answer(body, CITING, "length")]
    answer = complete(stream=True)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    parts = chunks(answer)
    deltas = [each["choices"][0]["delta"] for each in parts]
    assert deltas[0] == {"role": "assistant", "content": "Thirty "}
    assert "".join(each.get("content", "") for each in deltas) == CITING
    assert [each["choices"][0]["finish_reason"] for each in parts] == [None] * (len(parts) - 1) + ["length"]
    for each in (parts[-1], whole):
        del each["rag"]["receipt"]["oracles"]  # which took their own time
    assert parts[-1]["rag"] == whole["rag"]
    assert len({(each["id"], each["object"], each["created"]) for each in parts}) == 1


def test_tokens_are_told_where_the_server_counts_them_and_in_a_stream_to_who_asks(complete, models):
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choices = [{"message": {"role": "assistant", "content": "Yes."}}]
    models.script = [as_json({"model": "chatty", "choices": choices, "usage": usage})]
    assert complete(model="chatty", **PLAIN)["usage"] == usage
    said = [{"choices": [{"delta": {"content": "Yes."}}]}, {"choices": [], "usage": usage}, "[DONE]"]
    for options, expected in (({"include_usage": True}, usage), (None, None)):
        models.script = [as_events(*said)]
        parts = chunks(complete(model="chatty", stream=True, stream_options=options, **PLAIN))
        assert parts[-1].get("usage") == expected


def test_a_model_that_is_down_is_503_before_a_stream_and_openais_error_within_it(complete, models):
    models.script = [Answer(503, b"{}")] * 3
    assert complete(503, model="chatty", stream=True, **PLAIN)["error"]["type"] == "server_error"
    half = {"choices": [{"delta": {"content": "Half"}}]}
    models.script = [as_events(half, hold=None)]
    events = complete(model="chatty", stream=True, **PLAIN).get_data(as_text=True).strip().split("\n\n")
    last = json.loads(events[-1].removeprefix("data: "))
    assert (last["error"]["type"], last["error"]["code"]) == ("server_error", "chat_unavailable")
    assert "[DONE]" not in events


def test_no_conversation_is_kept(complete, client, app):
    def kept():
        with app.extensions["rag.service"].catalog.read() as transaction:
            return transaction.row("SELECT count(*) FROM chat_messages")[0]

    before = kept()
    complete()
    assert kept() == before
    assert client.post("/api/chat", json={"message": "How long are backups kept?"}).status_code == 200
    assert kept() > before


def test_what_cannot_be_asked_is_named(complete):
    assert complete(404, model="gpt-5")["error"]["param"] == "model"
    for store in ("no-such-store", "vs_" + "0" * 32):
        assert complete(404, vector_store_ids=[store])["error"]["param"] == "vector_store_ids"
    twice = [{"type": "file_search", "vector_store_ids": ["abc"]}]
    assert complete(400, tools=twice)["error"]["param"] == "vector_store_ids"


@pytest.mark.parametrize("conversation_id", ["a/b", "/a//b/", "a b", "%2F", "é/…", "x" * 200, "...", "a\u2028b"])
def test_a_conversation_s_id_is_read_and_erased_by_path_as_it_was_made(client, conversation_id):
    path = f"/api/chat/{quote(conversation_id, safe='')}"
    assert client.post("/api/chat", json={"message": "Hi", "conversationId": conversation_id}).status_code == 200
    assert client.get(path).json["conversationId"] == conversation_id
    assert client.delete(path).json["conversationId"] == conversation_id
    assert client.get(path).status_code == 404


def test_only_what_passes_within_a_minute_is_to_be_repeated():
    missing, away = errors.ConfigurationError("There is none"), errors.UnavailableError("It is away")
    soon, late = (errors.TooManyRequestsError("Enough", retry_after_seconds=each, limit="n") for each in (60, 61))
    passing = soon, errors.ReadTimeoutError(""), errors.SlowClientError(""), ChatUnavailableError(away)
    lasting = late, errors.TooSlowError(""), VectorDBFullError(""), ChatUnavailableError(missing), errors.RagError("")
    for each in (*passing, failure_of({"a": away, "b": missing})):
        assert error_headers(each, 0) == {"x-should-retry": "true"}, each
    for each in (*lasting, failure_of({"a": missing, "b": EngineAccessError("")})):
        assert error_headers(each, 0) == {"x-should-retry": "false"}, each


@pytest.mark.parametrize("path", ["/v1/vector_stores/{store}/search", "/dify/retrieval"])
def test_what_a_search_without_embeddings_could_not_ask_is_told_and_what_it_could_not_at_all(
    client, models_up, handbook, path, monkeypatch
):
    monkeypatch.setattr(JsonClient, "_wait_seconds", lambda by, error, _: 0.0 if by._dialect.may_pass(error) else None)
    path, knowledge = path.format(store=handbook[0]), {"knowledge_id": handbook[0]} if "dify" in path else {}
    setting = "retrieval_setting" if knowledge else "ranking_options"
    body = {"query": f"backups {path}", **knowledge}
    models_up.is_down = True
    answer = client.post(path, json={**body, setting: {"score_threshold": 0.5}}).json
    assert len(answer.get("records", answer.get("data"))) == 1
    failed, unjudged = answer["warnings"]
    assert failed.startswith("The semantic oracle did not answer: ")
    assert "No relevance could be told" in unjudged
    if not knowledge:
        refused = client.post(path, json={**body, setting: {"hybrid_search": {"text_weight": 0}}})
        assert (refused.status_code, refused.headers["x-should-retry"]) == (503, "true")
        assert int(refused.headers["Retry-After"]) > 0
    models_up.is_down = False
    assert "warnings" not in client.post(path, json={**body, "query": f"{path} again"}).json
