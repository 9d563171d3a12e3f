"""What comes before an answer, ends it early, or is too much for its model: the same over every interface."""

import json

import pytest

from schemas.settings import RetrievalSettings
from tests.support.model_server import as_json, chat_answer

CHAT = "/v1/chat/completions"
THOUGHT = "<think>Is it [7]? WONDERED.</think>\n\nThirty days【1】."
QUESTION = "How long are backups kept?"
NOT_WHOLE = "The answer is not whole: the model has come to the limit of its length"
TOO_LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."


@pytest.fixture(scope="module")
def showing(app_of_models):
    return app_of_models(retrieval=RetrievalSettings(chat_show_thoughts=True)).test_client()


@pytest.fixture(scope="module")
def stored(talking):
    client = talking.test_client()
    for number in range(5):
        body = {"source": "ends", "path": f"/{number}", "title": "T", "text": f"Backups number {number} are kept."}
        assert client.post("/api/rag/ingest", json=body).status_code == 200
    return client


@pytest.fixture
def hiding(stored, models_up):
    return stored


def asked(client, path="/api/chat", **body):
    """Return the answer, or its events where it is streamed."""
    where = {"ragFilters": {"source": "ends"}, "min_relevance": 0, "useRag": True, "message": QUESTION}
    plain = {"model": "chatty", "messages": [{"role": "user", "content": QUESTION}]}
    answer = client.post(path, json={**(plain if path == CHAT else where), **body})
    if not body.get("stream"):
        return answer.json
    lines = [each.removeprefix("data: ") for each in answer.get_data(as_text=True).split("\n\n")]
    return [json.loads(each) for each in lines if each.startswith("{")]


def says(models, monkeypatch, *said):
    monkeypatch.setitem(models.routes, CHAT, lambda body: chat_answer(body, *said))


def test_thoughts_reach_nobody_unless_the_operator_shows_them_apart(hiding, showing, models, monkeypatch):
    says(models, monkeypatch, THOUGHT)
    answer, events = asked(hiding, conversationId="hiding"), asked(hiding, stream=True)
    assert (answer["data"]["message"], answer["finishReason"]) == ("Thirty days[1].", "stop")
    assert [each["number"] for each in answer["citations"]] == [1]
    assert "".join(each.get("delta", "") for each in events) == "Thirty days[1]."
    everything = [
        answer,
        events,
        hiding.get("/api/chat/hiding").json,
        asked(hiding, CHAT),
        asked(hiding, CHAT, stream=True),
    ]
    assert "WONDERED" not in json.dumps(everything)
    shown, plain = asked(showing, useRag=False, ragFilters=None), asked(showing, CHAT)["choices"][0]["message"]
    assert shown["thoughts"] == plain["reasoning_content"] == "Is it [7]? WONDERED."
    assert "WONDERED" not in shown["data"]["message"] + plain["content"]
    events = asked(showing, useRag=False, ragFilters=None, stream=True)
    assert "".join(each.get("thought", "") for each in events) == "Is it [7]? WONDERED."
    deltas = [each["choices"][0]["delta"] for each in asked(showing, CHAT, stream=True)]
    assert "".join(each.get("reasoning_content", "") for each in deltas) == "Is it [7]? WONDERED."


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_not_whole_is_told_and_remembered_as_such(hiding, models, monkeypatch, stream):
    says(models, monkeypatch, "It is", "length")
    answer = asked(hiding, stream=stream, conversationId=f"cut-{stream}")
    answer = answer[-1] if stream else answer
    assert (answer["finishReason"], answer["warnings"]) == ("length", [NOT_WHOLE])
    plain = asked(hiding, CHAT, stream=stream)
    plain = plain[-1] if stream else plain
    assert (plain["choices"][0]["finish_reason"], plain["warnings"]) == ("length", [NOT_WHOLE])
    _, kept = hiding.get(f"/api/chat/cut-{stream}").json["messages"]
    assert (kept["content"], kept["finishReason"]) == ("It is", "length")
    asked(hiding, conversationId=f"cut-{stream}")
    [sent] = [each["content"] for each in models.requests[-1].body["messages"] if each["role"] == "assistant"]
    assert sent == "It is\n\n[This answer was not whole.]"


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_too_long_is_asked_again_with_less(hiding, models, monkeypatch, stream):
    def read(body):
        passages = body["messages"][0]["content"].count("[Source: T]")
        return chat_answer(body) if passages <= 2 else as_json({"error": {"message": TOO_LONG}}, 400)

    monkeypatch.setitem(models.routes, CHAT, read)
    before = len(models.requests)
    answer = asked(hiding, stream=stream)
    answer = answer[-1] if stream else answer
    assert len(answer["ragSources"]) == 2
    assert answer["warnings"] == ["Only the first 2 of 5 passages were asked: the chat model reads no more at once"]
    assert len([each for each in models.requests[before:] if each.path == CHAT]) == 3


def test_it_is_asked_three_times_at_most_and_once_where_the_refusal_is_of_something_else(hiding, models, monkeypatch):
    for message, times in ((TOO_LONG, 3), ("There is no such option: top_q", 1)):
        before = len(models.requests)
        refusal = as_json({"error": {"message": message}}, 400)
        monkeypatch.setitem(models.routes, CHAT, lambda body, refusal=refusal: refusal)
        assert message[:30] in asked(hiding)["message"]
        assert len([each for each in models.requests[before:] if each.path == CHAT]) == times
