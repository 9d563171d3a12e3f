"""What fails once the model has answered is not the model's failure."""

from types import SimpleNamespace

import pytest

from providers.chat.base import ChatAnswer
from retrieval.chat.answering import Chat
from schemas.access.callers import ANYBODY, acting_as
from schemas.access.owners import OPEN, Asker
from schemas.contracts.chat import ChatRequest, Message
from schemas.errors import UnavailableError


@pytest.mark.parametrize("ask", [Chat.answer, lambda *asked, **by: list(Chat.stream(*asked, **by))])
def test_a_catalogue_that_fails_after_the_answer_is_not_taken_for_a_model_that_does(ask):
    said = ChatAnswer("said", "model")
    model = SimpleNamespace(chat=lambda *_, **by: said, stream=lambda *_, **by: iter(["said", said]))
    connections = SimpleNamespace(open_chat=lambda: ("chat", model), elsewhere=lambda connections: [])
    chat = Chat(connections, None, SimpleNamespace(erasures=lambda: 0), says_so=False)
    checks = iter([ANYBODY])

    def still():
        for caller in checks:
            return caller
        raise UnavailableError("The catalogue does not answer")

    with acting_as(ANYBODY, still), pytest.raises(UnavailableError) as caught:
        ask(chat, ChatRequest((Message("user", "What?"),)), asker=Asker(OPEN))
    assert caught.value.code == "unavailable"
