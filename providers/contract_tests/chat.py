"""The contract of a chat provider, as one class."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from providers.chat.base import ChatAnswer, ChatProvider
from providers.contract_tests.provider import ProviderTests
from schemas.contracts.chat import Message, Thought
from schemas.errors import InvalidInputError

MESSAGES = [Message("system", "Be brief."), Message("user", "Hello?")]


class ChatTests(ProviderTests):
    """Subclasses override the fixture `provider`: a connection to a service, or to one that speaks its protocol."""

    def test_it_is_a_chat_connection(self, provider: Any) -> None:
        assert isinstance(provider, ChatProvider)
        assert provider.kind == "llm"
        assert provider.model

    def test_an_answer_has_words_and_the_model_that_said_them(self, provider: Any) -> None:
        answer = provider.chat(MESSAGES)
        assert isinstance(answer, ChatAnswer)
        assert answer.content.strip()
        assert answer.model
        for tokens in (answer.prompt_tokens, answer.answer_tokens):
            assert tokens is None or tokens >= 0

    def test_both_names_of_the_longest_answer_are_understood(self, provider: Any) -> None:
        for name in ("max_tokens", "num_predict"):
            assert provider.chat(MESSAGES, options={name: 16, "temperature": 0.0}).model

    def test_a_streamed_answer_is_the_sum_of_its_pieces(self, provider: Any) -> None:
        *parts, answer = provider.stream(MESSAGES, options={"max_tokens": 16}, is_unwanted=lambda: False)
        assert isinstance(answer, ChatAnswer)
        pieces = [piece for piece in parts if not isinstance(piece, Thought)]
        assert all(isinstance(piece, str) for piece in pieces)
        assert "".join(pieces) == answer.content
        assert answer.content.strip()
        assert answer.model

    def test_a_stream_may_be_left_in_the_middle(self, provider: Any) -> None:
        with closing(provider.stream(MESSAGES)) as pieces:
            assert isinstance(next(pieces), str | Thought)
        assert list(pieces) == []
        assert provider.chat(MESSAGES).model

    def test_no_messages_are_refused(self, provider: Any) -> None:
        for ask in (provider.chat, provider.stream):
            with pytest.raises(InvalidInputError):
                ask([])

    def test_a_trial_tells_the_model(self, provider: Any) -> None:
        assert provider.try_out()["model"]

    def test_its_models_have_names_of_their_own(self, provider: Any) -> None:
        names = [each.id for each in provider.models()]
        assert all(names)
        assert len(names) == len(set(names))

    def test_threads_share_a_connection(self, provider: Any) -> None:
        with ThreadPoolExecutor(4) as pool:
            assert all(answer.model for answer in pool.map(provider.chat, [MESSAGES] * 4))
