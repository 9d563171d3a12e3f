"""Every chat provider keeps the same promises; both protocols are tested on a small server on loopback."""

from contextlib import ExitStack

import pytest

from providers.chat.base import ChatAnswer
from providers.chat.ollama import OllamaProvider
from providers.chat.openai import OpenAIProvider
from providers.contract_tests import ChatTests
from providers.outbound.json_client import RetryPolicy
from providers.outbound.refusals import exceeds_context
from registry.provider_discovery import BUILTINS
from schemas.contracts.chat import Message
from schemas.errors import ConfigurationError, InvalidInputError, UnavailableError
from tests.support.http_stub import running

KEY = "sk-planted-1234"
HELLO = [Message("system", "Be brief."), Message("user", "Hello?")]
ANSWERS = {
    "/v1/chat/completions": {
        "model": "m-2026",
        "choices": [{"message": {"role": "assistant", "content": "Hi."}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2},
    },
    "/api/chat": {
        "model": "m-2026",
        "message": {"role": "assistant", "content": "Hi."},
        "prompt_eval_count": 9,
        "eval_count": 2,
    },
    "/v1/chat/completions streamed": b'data: {"model":"m-2026","choices":[{"delta":{"content":"H"}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"i."}}]}\n\ndata: [DONE]\n\n',
    "/api/chat streamed": b'{"model":"m-2026","message":{"content":"H"}}\n{"message":{"content":"i."},"done":true}\n',
    "/v1/models": {"data": [{"id": "m"}, {"id": "n"}]},
    "/api/tags": {"models": [{"name": "m"}, {"name": "n"}]},
}


class Server:
    """A server that first sends the (status, body) pairs in `script`, then the protocols' own answers."""

    def __init__(self):
        self.requests, self.script = [], []
        self.url = ""

    def answer(self, method, target, headers, body):
        self.requests.append((target, headers.get("Authorization"), body))
        how = " streamed" if body and body.get("stream") else ""
        status, answer = self.script.pop(0) if self.script else (200, ANSWERS.get(target + how))
        return (404 if answer is None else status), {}, answer


@pytest.fixture
def server():
    with running(Server()) as server:
        yield server


@pytest.fixture(params=[builtin.id for builtin in BUILTINS if builtin.kind == "llm"])
def connect(request, server):
    """`connect(**config)` builds connections of one protocol; a new kind fails here until it has a line."""
    kind, path = {"openai": (OpenAIProvider, "/v1"), "ollama": (OllamaProvider, "")}[request.param]
    usual = {"url": server.url + path, "model": "m"}
    with ExitStack() as opened:
        yield lambda **config: opened.enter_context(kind({**usual, **config}, retry=RetryPolicy(attempts=1)))


class TestEveryChatProvider(ChatTests):
    @pytest.fixture
    def provider(self, connect):
        return connect()

    @pytest.fixture
    def gone(self, connect):
        return connect(url="http://127.0.0.1:9")


def test_an_answer_has_its_text_model_and_tokens_and_the_key_travels_in_one_header(connect, server):
    for key, header in ((None, None), (KEY, f"Bearer {KEY}")):
        assert connect(api_key=key).chat(HELLO) == ChatAnswer("Hi.", "m-2026", 9, 2)
        path, authorization, body = server.requests[-1]
        assert (authorization, KEY in path + str(body)) == (header, False)
    assert body["model"] == "m"
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]


def test_temperature_and_length_come_from_the_call_or_else_the_configuration_and_options_travel_unchanged(
    connect, server
):
    connection = connect(temperature=0.5, max_tokens=50)
    connection.chat(HELLO)
    connection.chat(HELLO, options={"temperature": 0.0, "max_tokens": 7})
    asked = [body.get("options", body) for _, _, body in server.requests]
    assert [each["temperature"] for each in asked] == [0.5, 0.0]
    assert [each.get("max_tokens", each.get("num_predict")) for each in asked] == [50, 7]
    options = {"top_p": 0.5, "seed": 7, "stop": ["\n"], "num_ctx": 4096, "deep": {"a": [1]}}
    connect().chat(HELLO, options=options)
    connect().chat(HELLO)
    [with_options, without] = [body for _, _, body in server.requests[2:]]
    asked = with_options.get("options", with_options)
    assert {name: asked[name] for name in options} == options
    told = {"model", "messages", "stream", "truncate", "options"}
    assert set(asked) - told == set(options)
    assert without.get("options", {}) == {}
    assert set(without) <= told


@pytest.mark.parametrize("name", ["max_tokens", "num_predict"])
def test_the_limit_of_an_answer_has_the_servers_own_name(connect, server, name):
    connect(max_tokens=50).chat(HELLO, options={name: 7})
    [(path, _, body)] = server.requests
    named = "num_predict" if path == "/api/chat" else "max_tokens"
    asked = body.get("options", body)
    assert asked[named] == 7
    assert {"max_tokens", "num_predict"} & asked.keys() == {named}


@pytest.mark.parametrize("body", [[], {"choices": [{"message": {"content": ""}}], "message": {"content": " "}}, b"<>"])
def test_an_answer_without_text_is_unusable(connect, server, body):
    server.script = [(200, body)]
    with pytest.raises(UnavailableError):
        connect().chat(HELLO)


def test_a_check_counts_models_and_a_trial_asks_for_one_token(connect, server):
    connection = connect()
    assert connection.check() == {"models_count": 2}
    assert connection.try_out() == {"model": "m-2026"}
    asked = server.requests[-1][2]
    assert asked.get("options", asked).get("num_predict", asked.get("max_tokens")) == 1
    assert connection.health().status == "healthy"


def test_openais_newer_name_for_the_limit_is_tried_and_ollama_says_how_to_get_a_missing_model(server):
    refusal = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}
    server.script = [(400, refusal)]
    with OpenAIProvider({"url": f"{server.url}/v1", "model": "o9"}, retry=RetryPolicy(attempts=1)) as connection:
        for _ in range(2):
            assert connection.chat(HELLO, options={"max_tokens": 5}).content == "Hi."
    assert [body.get("max_completion_tokens") for _, _, body in server.requests] == [None, 5, 5]
    server.script = [(404, {"error": "model 'm' not found"})]
    with (
        OllamaProvider({"url": server.url, "model": "m"}, retry=RetryPolicy(attempts=1)) as connection,
        pytest.raises(ConfigurationError, match="ollama pull m"),
    ):
        connection.chat(HELLO)


TOO_LONG = [
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
    (400, "request (2622 tokens) exceeds the available context size (512 tokens), try increasing it"),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 4096."),
    (500, "the request exceeds the available context size. try increasing the context size"),
    (400, "the input length exceeds the context length"),
    (413, "Request too large for model `m`: Limit 6000, Requested 7000"),
    (422, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"),
    (
        400,
        "Trying to keep the first 5000 tokens when context the overflows. It is loaded with context length of only 4096",
    ),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
]


@pytest.mark.parametrize(("status", "message"), [*TOO_LONG, (400, "top_q is no option"), (503, "overloaded")])
def test_a_request_that_is_longer_than_the_model_reads_is_known_and_sent_once(connect, server, status, message):
    server.script = [(status, {"error": {"message": message}})] * 2
    with pytest.raises((InvalidInputError, UnavailableError)) as caught:
        connect().chat(HELLO)
    assert exceeds_context(caught.value) == ((status, message) in TOO_LONG)
    assert len(server.requests) == 1
