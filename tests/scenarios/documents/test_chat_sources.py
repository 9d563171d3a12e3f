"""Contract *documents*, over HTTP: chats that cite their passages, and say when there are none."""

import uuid

import orjson
import pytest

from interfaces.mcp.texts import readable
from retrieval.chat.answering import NONE_ASKED, NOT_ALL_ASKED, NOTHING_FOUND
from schemas.settings import RetrievalSettings
from tests.scenarios.documents.conftest import BACKUPS, HOLIDAY
from tests.support.model_server import chat_answer

QUESTION = {"role": "user", "content": "How long are backups kept?"}
CHAT = "/v1/chat/completions"
UNRELATED = {"role": "user", "content": "Does the moon sing?"}


@pytest.fixture(scope="module")
def guessing(app_of_models):
    return app_of_models(retrieval=RetrievalSettings(chat_without_sources="answer"))


def talker(app, models, **least):
    client, source = app.test_client(), uuid.uuid4().hex
    models.meanings = {"How long": [1, 0], "Backups": [0.96, 0.28], "Employees": [0.8, 0.6], "moon": [0, 0, 1]}
    for path, text in (("/a", BACKUPS), ("/b", HOLIDAY)):
        body = {"source": source, "path": path, "title": f"T{path}", "text": text}
        assert client.post("/api/rag/ingest", json={**body, "metadata": {"page": 7}}).status_code == 200

    def send(question=QUESTION, **body):
        body = {"messages": [question], "useRag": True, "ragFilters": {"source": source}, **least, **body}
        answer = client.post("/api/chat", json=body)
        assert answer.status_code == 200, answer.json
        return answer.json

    send.client = client
    return send


@pytest.fixture
def talk(talking, models_up):
    """The models of these tests are not calibrated, so the service has to be told what is relevant."""
    return talker(talking, models_up, min_relevance=0.5)


@pytest.fixture
def guess(guessing, models_up):
    return talker(guessing, models_up)


@pytest.fixture
def chats(models):
    """Return what the chat model was asked so far."""
    return lambda: [each.body for each in models.requests if each.path == CHAT]


@pytest.fixture
def says(models, monkeypatch):
    """`says(words)` has the chat model say these words to everything."""
    return lambda words: monkeypatch.setitem(models.routes, CHAT, lambda body: chat_answer(body, words))


class TestCitations:
    def test_each_number_is_told_with_its_passage_or_as_not_valid_and_without_rag_there_is_nothing_to_check(
        self, talk, says
    ):
        says("So [2], and so [1, 3]. Not `[4]`, but [2] again.")
        answer = talk()
        first, second = answer["ragSources"]
        assert [each["number"] for each in answer["citations"]] == [2, 1, 3]
        for citation, source in zip(answer["citations"], (second, first), strict=False):
            assert citation["valid"] is True
            assert (citation["title"], citation["collection"]) == (source["title"], source["collection"])
            assert citation["page"] == 7
            stored = talk.client.get(f"/collections/{citation['collection']}/documents/{citation['id']}").json
            assert stored["text"] == source["text"]
        assert answer["citations"][2] == {"number": 3, "collection": None, "id": None, "valid": False}
        assert (first["page"], second["page"]) == (7, 7)
        assert answer["relevance"] == pytest.approx(0.96, abs=1e-3)
        says("So [1].")
        answer = talk(UNRELATED, useRag=False)
        assert answer["data"]["message"] == "So [1]."
        assert {"citations", "relevance"}.isdisjoint(answer)


class TestNothingRelevant:
    def test_it_says_so_and_the_model_is_not_asked_and_the_request_sets_the_limit(self, talk, chats):
        asked, name = len(chats()), uuid.uuid4().hex
        answer = talk(UNRELATED, conversationId=name)
        assert len(chats()) == asked
        assert (answer["status"], answer["ragUsed"], answer["ragSources"]) == ("success", True, [])
        assert answer["data"]["message"] == answer["data"]["response"] == NOTHING_FOUND
        assert answer["data"]["model"] == "chatty"
        assert answer["citations"] == []
        assert answer["relevance"] is None or answer["relevance"] < 0.1
        kept = talk.client.get(f"/api/chat/{name}").json["messages"]
        assert [each["content"] for each in kept] == [UNRELATED["content"], NOTHING_FOUND]
        assert [each["title"] for each in talk(min_relevance=0.9)["ragSources"]] == ["T/a"]
        assert talk(min_relevance=0.97)["data"]["message"] == NOTHING_FOUND
        assert len(talk(UNRELATED, min_relevance=0)["ragSources"]) == 2
        nothing = talk(ragFilters={"source": "nobodys"})
        assert (nothing["data"]["message"], nothing["relevance"]) == (NOTHING_FOUND, None)

    def test_what_cannot_be_asked_is_a_warning_and_no_document_in_which_nothing_is(self, talk, models):
        client, lost, config = talk.client, uuid.uuid4().hex, {"url": f"{models.url}/nowhere", "model": "m"}
        client.post("/api/connections", json={"id": lost, "type": "embedding", "provider": "openai", "config": config})
        moons = {"documents": [{"id": "a", "embedding": [1, 0, 0], "text": "Moons"}]}
        for name, model in ((lost, "m"), (f"{lost}-x", "another")):
            known = {"embedding_connection": lost, "embedding_model": model}
            client.post("/collections", json={"name": name, "metadata": known})
            client.post(f"/collections/{name}/documents", json=moons)
        for names, said, missed in (
            ([lost, "rag-documents"], NOT_ALL_ASKED, f"{lost}: The embedding service"),
            ([f"{lost}-*", "rag-documents"], NOT_ALL_ASKED, f"{lost}-x: its embeddings are of 'another'"),
            ([f"{lost}-*"], NONE_ASKED, f"{lost}-x: its embeddings are of 'another'"),
        ):
            answer = talk(UNRELATED, **(asked := {"collections": names}))
            [told] = warnings = answer["warnings"]
            assert (answer["data"]["message"], missed in told) == (said, True)
            body = {"messages": [UNRELATED], "model": "rag", "vector_store_ids": names}
            assert client.post(CHAT, json=body).json["warnings"] == warnings
            for path, asks in ((CHAT, body), ("/api/chat", {"message": "?", "useRag": True, **asked})):
                stream = client.post(path, json={**asks, "stream": True}).get_data(as_text=True)
                assert orjson.dumps(warnings).decode() in stream
            [told] = client.post("/api/rag/search", json={"query": "moon", **asked}).json["warnings"]
            assert f" not put to {missed}" in told
        of_dify = client.post("/dify/retrieval", json={"query": "moon", "knowledge_id": names[0]}).json
        assert of_dify == {"records": [], "warnings": warnings}
        assert readable("rag_query", client.post("/api/search", json={"query": "moon", **asked}).json).endswith(told)
        for name in (lost, f"{lost}-x"):
            client.delete(f"/collections/{name}")

    def test_the_model_answers_where_the_operator_wants_it(self, guess, chats):
        answer = guess(UNRELATED)
        assert answer["data"]["message"] == "So it is."
        assert len(answer["ragSources"]) == 2
        answer = guess(UNRELATED, min_relevance=0.9, system="Be brief.")
        assert (answer["data"]["message"], answer["ragSources"]) == ("So it is.", [])
        assert chats()[-1]["messages"] == [{"role": "system", "content": "Be brief."}, UNRELATED]
