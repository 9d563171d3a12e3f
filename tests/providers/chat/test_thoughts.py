"""What a model thinks is no part of its answer, however it is marked and however it arrives."""

import time

import pytest

from providers.chat.base import ChatAnswer, ChatProvider
from providers.chat.thoughts import parted
from schemas.connections import ModelInfo
from schemas.contracts.chat import Message, Thought
from schemas.errors import UnavailableError

B = "It is so [1]."
CASES = [
    (f"<think>Hm [7].</think>\n\n{B}", "Hm [7].", B),
    (f" \n<THINKING>a <reflection>b</reflection></thinking> <think>c</think>{B}", "a <reflection>b</reflection>c", B),
    (f"<thought>a</thought><reasoning>b</reasoning>{B}", "ab", B),
    (f"[THINK]a `</think>` b[/THINK]{B}", "a `</think>` b", B),
    (f"◁think▷a◁/think▷{B}", "a", B),
    (f"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>{B}", None, B),
    (f"<|channel|>final<|message|>{B}", "", B),
    (f"<|channel>thought\na<channel|>{B}", "\na", B),
    (f"<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>{B}", "a", B),
    (f"<|begin_of_thought|>a<|end_of_thought|>\n\n<|begin_of_solution|>{B}", "a", B),
    (f"Hm, [3] first.</think>{B}", "Hm, [3] first.", B),
    (f"Why `<b>?\n</think>\n\n{B}", "Why `<b>?\n", B),
    *(
        (each, "", each)
        for each in ("<b>Bold</b>", "<", "< think >", " Plain <think>a</think> so.", "So `</think>` ends.")
    ),
    *(
        (each, "", each)
        for each in ("```\n</think>\n```\nends it.", 'The tag "</think>" ends it, <p> not.', "Ah </think> so")
    ),
]


@pytest.mark.parametrize(("said", "thoughts", "answer"), CASES)
def test_tags_at_the_beginning_are_thoughts_and_mentions_are_text(said, thoughts, answer):
    found = parted(said)
    assert found[1] == answer
    assert thoughts in (None, found[0])


class Saying(ChatProvider):
    """A provider as a plugin writes it: it gives its model's words one by one, or at once."""

    id = "saying"
    words: tuple[object, ...] = ()

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {"timeout_seconds": {"default": 1}}}

    def models(self):
        return [ModelInfo("m", "llm")]

    def check(self):
        return {}

    def _chat(self, messages, options):
        return ChatAnswer("".join(each for each in self.words if isinstance(each, str)), self.model)

    def _stream(self, messages, options, is_unwanted):
        yield from (*self.words, self._chat(messages, options))


@pytest.fixture
def say():
    """`say(*words, model)`: what is streamed, and the whole answer."""

    def say(*words, model="m", by=None):
        provider = by or Saying({"url": "http://127.0.0.1:9", "model": model})
        provider.words = words
        *pieces, answer = provider.stream([Message("user", "What?")])
        assert provider.chat([Message("user", "What?")]) == answer
        return "".join(each for each in pieces if isinstance(each, str)), answer

    return say


@pytest.mark.parametrize("model", ["m", "deepseek-r1:8b"])
@pytest.mark.parametrize(("said", "_", "answer"), CASES)
def test_a_stream_holds_thoughts_back_whatever_its_pieces_are(say, said, _, answer, model):
    streamed, whole = say(*said, model=model)
    assert whole.content == answer
    assert streamed == answer or (model == "m" and streamed == said), "thoughts without a tag are known by the name"


def test_a_model_that_leaves_the_tag_out_is_known_from_then_on_and_others_are_not_held_back(say):
    by = Saying({"url": "http://127.0.0.1:9", "model": "m"})
    shown = [say("Hm.</think>", B, by=by)[0] for _ in range(2)]
    assert shown == [f"Hm.</think>{B}", B]
    by.words = ("One ", "two.")
    assert next(Saying.stream(by, [Message("user", "What?")])) == "One two.", "held back to its end"
    by = Saying({"url": "http://127.0.0.1:9", "model": "qwq"})
    by.words = (Thought("hm"), "One ", "two.")
    assert list(by.stream([Message("user", "What?")]))[:2] == [Thought("hm"), "One "], "its thoughts are apart"


@pytest.mark.parametrize("words", [("<think>", "So [1]."), ("<think>a</think>", " \n"), (" \u200b",)])
def test_thoughts_alone_are_no_answer(say, words):
    with pytest.raises(UnavailableError, match="without a message"):
        say(*words)


@pytest.mark.parametrize("text", ["`</think>` ", "` `` ", "<", "x</think", ' "</think>"', "``\n`"])
def test_time_grows_with_the_answer_alone(text):
    began = time.process_time()
    parted(text * (100_000 // len(text)))
    assert time.process_time() - began < 0.5
