"""Contract *documents*, over HTTP: chats whose answers arrive in pieces, and everything that breaks them."""

import json
import uuid

import pytest

from tests.scenarios.documents.conftest import BACKUPS
from tests.support.model_server import as_events, as_json, chat_answer


@pytest.fixture
def talk(talking, models_up):
    client = talking.test_client()

    def send(path="/api/chat", /, **body):
        return client.post(path, json=body)

    send.client = client
    return send


def events(answer):
    assert answer.status_code == 200, answer.data
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["X-Accel-Buffering"] == "no"
    parts = answer.get_data(as_text=True).split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") and "\n" not in part for part in parts)
    return [json.loads(part.removeprefix("data: ")) for part in parts]


HALF = {"choices": [{"delta": {"content": "Half"}}]}


class TestStreams:
    def test_the_last_event_has_the_fields_of_the_answer_in_one_piece(self, talk, models):
        source = uuid.uuid4().hex
        talk("/api/rag/ingest", source=source, path="/a", title="A", text=BACKUPS)
        asked = {
            "messages": [{"role": "user", "content": "How long are backups kept?"}],
            "useRag": True,
            "min_relevance": 0,
            "ragFilters": {"source": source},
            "conversationId": "c",
        }
        models.script = [models.routes["/v1/embeddings"], lambda body: chat_answer(body, "Thirty days [1], or so [2].")]
        whole = talk(**asked).json
        models.script = [lambda body: chat_answer(body, "Thirty days [1], or so [2].")]
        *deltas, last = events(talk(stream=True, **asked))
        assert [each["delta"] for each in deltas] == ["Thirty ", "days ", "[1], ", "or ", "so ", "[2]."]
        assert last.pop("done") is True
        told, streamed = (each["receipt"].pop("oracles") for each in (whole, last))  # which took their own time
        assert told.keys() == streamed.keys()
        assert last == whole
        assert [(each["number"], each["valid"]) for each in last["citations"]] == [(1, True), (2, False)]

    def test_names_that_nothing_reads_are_told_at_the_end_and_a_conversation_remembers_what_was_said_once(
        self, talk, models
    ):
        assert {talk(message="Hi", stream=no).json["data"]["message"] for no in (False, None)} == {"So it is."}
        *_, last = events(talk(message="Hello?", stream=True, mood="gentle"))
        assert "mood" in str(last["warnings"])
        name = uuid.uuid4().hex
        events(talk(message="My name is Ada.", stream=True, conversationId=name))
        events(talk(message="What is my name?", stream=True, conversationId=name))
        kept = talk.client.get(f"/api/chat/{name}").json["messages"]
        assert [each["content"] for each in kept] == ["My name is Ada.", "So it is.", "What is my name?", "So it is."]
        said = models.requests[-1].body["messages"]
        assert [each["content"] for each in said] == [each["content"] for each in kept[:3]]

    def test_what_breaks_after_the_first_piece_is_the_last_event_and_not_remembered(self, talk, models):
        name = uuid.uuid4().hex
        for broken, said in (
            (as_events(HALF), "only a part"),
            (as_events(HALF, {"error": {"message": "out of memory"}}), "out of memory"),
            (as_events(HALF, "{nonsense"), "unexpected"),
        ):
            models.script = [broken]
            *deltas, last = events(talk(message="Hello?", stream=True, conversationId=name))
            assert deltas == [{"delta": "Half"}]
            assert set(last) >= {"error", "message", "detail", "code", "details"}
            assert (last["error"], last["code"]) == ("Service Unavailable", "chat_unavailable")
            assert said in last["message"]
            assert talk.client.get(f"/api/chat/{name}").status_code == 404

    @pytest.mark.slow
    def test_what_breaks_before_the_first_piece_has_a_status(self, talk, models):
        """That of the answer in one piece; a model that wants a pause says for how long."""
        talk("/api/rag/ingest", source="s", path="/a", title="A", text=BACKUPS)  # nothing is embedded to search nothing
        for first in (as_events({"error": {"message": "full"}}), as_events("[1]"), as_events("[DONE]")):
            models.script = [first]
            answer = talk(message="Hello?", stream=True)
            assert (answer.status_code, answer.json["code"]) == (503, "chat_unavailable")
        models.script = [as_json({"error": "slow down"}, 429, **{"Retry-After": "27"})]
        answer = talk(message="Hello?", stream=True)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "27")
        assert talk(message="Hello?", stream=True, ragTopK=21).status_code == 400
