"""The ids that clients choose for their conversations."""

from urllib.parse import quote

import pytest


@pytest.fixture(scope="module")
def app(app_of_models):
    return app_of_models()


@pytest.mark.parametrize("conversation_id", ["a/b", "/a//b/", "a b", "%2F", "é/…", "x" * 200, "...", "a\u2028b"])
def test_a_conversation_s_id_is_read_and_erased_by_path_as_it_was_made(client, conversation_id):
    path = f"/api/chat/{quote(conversation_id, safe='')}"
    assert client.post("/api/chat", json={"message": "Hi", "conversationId": conversation_id}).status_code == 200
    assert client.get(path).json["conversationId"] == conversation_id
    assert client.delete(path).json["conversationId"] == conversation_id
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("conversation_id", [".", "..", "a/../b", "./a", "a\nb", "\0", "x" * 201, " "])
def test_an_id_that_no_path_could_have_is_refused_when_it_is_chosen(client, conversation_id):
    answer = client.post("/api/chat", json={"message": "Hi", "conversationId": conversation_id})
    assert (answer.status_code, answer.json["details"]["field"]) == (400, "conversationId")
