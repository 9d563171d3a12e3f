"""Answers of chat models that arrive in pieces: both protocols as servers speak them, and everything that breaks one."""

import itertools
import threading
from contextlib import ExitStack, nullcontext

import orjson
import pytest

from providers.base import ProviderContext
from providers.chat import base
from providers.chat.base import ChatAnswer
from providers.chat.ollama import OllamaProvider
from providers.chat.openai import OpenAIProvider
from providers.outbound import deadlines
from providers.outbound.json_client import RetryPolicy
from providers.outbound.redaction import Redactor
from providers.outbound.vendor_dialect import VendorDialect
from registry.provider_discovery import BUILTINS
from schemas.contracts.chat import Message, Thought
from schemas.errors import ClientGoneError, ConfigurationError, InvalidInputError, UnavailableError
from schemas.storage.read_limits import ReadLimit, limited
from tests.registry.hostile import response
from tests.support.live import LIMITS_SECONDS, PATIENCE_SECONDS
from tests.support.raw_server import raw_server, saying, silent

HELLO = [Message("user", "Hello?")]
KEY = "sk-planted-1234"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CUT = HEAD + b"Connection: close\r\n\r\n"


def openai_piece(text, **more):
    return b"data: " + orjson.dumps({"model": "m-2026", "choices": [{"index": 0, "delta": {"content": text}}], **more})


def ollama_piece(text, **more):
    return orjson.dumps({"model": "m-2026", "message": {"role": "assistant", "content": text}, "done": False, **more})


class Protocol:
    """One protocol: what its server says for each text, at the end, and for an error; `gap` ends a message."""

    def __init__(self, kind, path, piece, gap, end, error):
        self.kind, self.path, self.piece, self.gap, self.end, self.error = kind, path, piece, gap, end, error

    def body(self, *texts):
        return b"".join(self.piece(text) + self.gap for text in texts) + self.end

    def told(self, status):
        """Return an error of that status within a stream, after what says nothing yet."""
        error = orjson.dumps({"error": {"message": "no max_tokens sk-planted-1234", "code": status}})
        return self.piece(" ") + self.gap + (b"data: " if self.path else b"") + error + self.gap


PROTOCOLS = {
    "openai": Protocol(
        OpenAIProvider,
        "/v1",
        openai_piece,
        b"\n\n",
        b'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}\n\ndata: [DONE]\n\n',
        b'event: error\ndata: {"message": "no memory for sk-planted-1234"}\n\n',
    ),
    "ollama": Protocol(
        OllamaProvider,
        "",
        ollama_piece,
        b"\n",
        b'{"model":"m-2026","message":{"content":""},"done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":2}\n',
        b'{"error": "no memory for sk-planted-1234"}\n',
    ),
}


@pytest.fixture(params=[builtin.id for builtin in BUILTINS if builtin.kind == "llm"])
def protocol(request):
    return PROTOCOLS[request.param]


@pytest.fixture
def connect(protocol):
    def build(server, **config):
        retry = RetryPolicy(attempts=2, first_wait_seconds=0.0)
        return protocol.kind({"url": server.url + protocol.path, "model": "m", **config}, retry=retry)

    with ExitStack() as opened:
        yield lambda server, **config: opened.enter_context(build(server, **config))


def pieces_then_error(stream, error):
    """Read until the error; return the pieces before it, and it."""
    pieces = []
    with pytest.raises(error) as caught:
        pieces.extend(stream)  # which keeps what came before an error
    return pieces, caught.value


def sized(body):
    return HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def in_chunks(body, length):
    texts = [body[begin : begin + length] for begin in range(0, len(body), length)]
    framed = b"".join(f"{len(text):x}\r\n".encode() + text + b"\r\n" for text in texts)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "frame", [sized, lambda body: in_chunks(body, 1), lambda body: in_chunks(body, 7), CUT.__add__]
)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_pieces_are_the_texts_in_order_however_the_bytes_are_cut(protocol, connect, frame, ends):
    texts = ["Grüße ", "日本", "🙂\n", "data: [DONE]\r\n"]
    with raw_server(saying(frame(protocol.body(*texts).replace(b"\n", ends)))) as server:
        *pieces, answer = connect(server).stream(HELLO)
    assert pieces == texts
    assert answer == ChatAnswer("".join(texts), "m-2026", 9, 2, "length")


def test_what_says_nothing_is_passed_over():
    said = (
        b"\xef\xbb\xbf: keep-alive\r\n\r\nevent: message\r\nid: 7\r\nretry: 10\r\n\r\n"
        b'data: {"choices":[],"prompt_filter_results":[]}\r\n\r\n'
        b'data: {"choices":[{"delta":{"role":"assistant","content":null}}]}\r\n\r\n'
        b'data:{"choices":[{"delta":{"reasoning_content":"hm"}}]}\r\r'
        b'data: {"choices":\ndata: [{"delta":{"content":"So."},"finish_reason":null}],"error":null}\n\n'
        b'data: {"choices":[{"delta":{"content":null,"refusal":" No."}}]}\n\ndata\n\ndata: [DONE]'
    )
    with raw_server(saying(CUT + said)) as server, OpenAIProvider({"url": server.url, "model": "m"}) as connection:
        said = list(connection.stream(HELLO))
    assert said == [Thought("hm"), "So.", " No.", ChatAnswer("So. No.", "m", thoughts="hm")]


WHOLE = b'{"choices": [\n{"message": {"content": [{"type": "text", "text": "So."}, {"type": "x"}]}}]}'
REFUSED = response(b'{"error": "stream is not supported"}', "400")


@pytest.mark.parametrize("beginning", [b"", REFUSED])
def test_a_server_that_does_not_stream_answers_in_one_piece(beginning):
    speak = in_turn(*filter(None, (beginning, sized(WHOLE))))
    with raw_server(speak) as server, OpenAIProvider({"url": server.url, "model": "m"}) as connection:
        assert list(connection.stream(HELLO)) == ["So.", ChatAnswer("So.", "m")]


def test_the_request_is_that_of_a_whole_answer_but_for_the_wish_to_stream(protocol, connect):
    with raw_server(saying(sized(protocol.body("Hi.")))) as server:
        connection = connect(server, temperature=0.5)
        list(connection.stream(HELLO, model="other", options={"max_tokens": 7, "top_p": 0.9}))
        [asked] = server.requests
    body = orjson.loads(asked.partition(b"\r\n\r\n")[2])
    assert (body["model"], body["stream"], body["messages"]) == ("other", True, [{"role": "user", "content": "Hello?"}])
    options = body.get("options", body)
    assert (options["top_p"], options["temperature"]) == (0.9, 0.5)
    assert options.get("num_predict", options.get("max_tokens")) == 7


def test_a_piece_arrives_before_the_next_one_is_said(protocol, connect):
    read = threading.Event()

    def speak(server, connection):
        connection.sendall(CUT + protocol.piece("One") + protocol.gap)
        assert read.wait(PATIENCE_SECONDS)
        connection.sendall(protocol.body(" two."))

    with raw_server(speak) as server:
        stream = connect(server).stream(HELLO)
        assert next(stream) == "One"
        read.set()
        assert list(stream)[-1].content == "One two."


@pytest.mark.parametrize("frame", [CUT.__add__, lambda body: HEAD + b"Content-Length: 100000\r\n\r\n" + body])
def test_an_answer_that_is_cut_is_no_answer(protocol, connect, frame):
    with raw_server(saying(frame(protocol.piece("Half") + protocol.gap))) as server:
        pieces, _ = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
        assert pieces == ["Half"]
        assert len(server.requests) == 1


def test_an_error_in_the_stream_is_told_without_secrets_and_an_answer_without_text_is_unusable(protocol, connect):
    body = protocol.piece("Half") + protocol.gap + protocol.error + protocol.body("more")
    with raw_server(saying(sized(body))) as server:
        pieces, error = pieces_then_error(connect(server, api_key=KEY).stream(HELLO), UnavailableError)
    assert pieces == ["Half"]
    assert "no memory for ***" in error.message
    assert KEY not in error.message + str(error.details)
    body = protocol.body("Half").removesuffix(protocol.end) + protocol.told(400)
    with raw_server(saying(sized(body))) as server:
        pieces, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
    assert (pieces, error.details["status"], error.retry_after_seconds) == (["Half", " "], 400, None)
    for end in (protocol.body("", " \n", "\u200b"), protocol.end.replace(b'"content":""', b'"role":"assistant"')):
        with raw_server(saying(sized(end))) as server:
            pieces, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
        assert (pieces, "without a message (finish_reason length)" in error.message) == ([], True)


@pytest.mark.parametrize("line", [b"{", b"[1]", b"nonsense", b'"text"', b"\xff"])
def test_a_line_that_is_no_object_ends_the_answer(protocol, connect, line):
    prefix = b"data: " if protocol.path else b""
    body = protocol.piece("Half") + protocol.gap + prefix + line + protocol.gap + protocol.body("more")
    with raw_server(saying(sized(body))) as server:
        pieces, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
    assert pieces == ["Half"]
    assert "unexpected" in error.message


def endless(protocol, text):
    def speak(server, connection):
        connection.sendall(CUT)
        while True:
            connection.sendall((protocol.piece(text) + protocol.gap) * 10)

    return speak


def test_an_endless_answer_is_given_up_by_its_characters_and_one_without_text_by_its_bytes(
    protocol, connect, monkeypatch
):
    monkeypatch.setattr(base, "MAX_ANSWER_CHARACTERS", 50_000)
    with raw_server(endless(protocol, "x" * 1_000)) as server:
        pieces, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
    assert len(pieces) == 50
    assert "more than 50000 characters" in error.message
    monkeypatch.setattr(VendorDialect, "max_answer_bytes", 100_000)
    with raw_server(endless(protocol, "")) as server:
        assert "100000 bytes" in pieces_then_error(connect(server).stream(HELLO), UnavailableError)[1].message


@pytest.mark.parametrize("is_dripping", [False, True])
def test_a_server_that_says_nothing_more_is_given_up(protocol, connect, is_dripping):
    blank = b": keep-alive\n\n" if protocol.path else b"\n"

    def speak(server, connection):
        connection.sendall(CUT + protocol.piece("Half") + protocol.gap)
        server.drip(connection, itertools.repeat(blank)) if is_dripping else silent(server, connection)

    for seconds in LIMITS_SECONDS:
        with raw_server(speak) as server:
            pieces, error = pieces_then_error(connect(server, timeout_seconds=seconds).stream(HELLO), UnavailableError)
        assert error.details["error_type"] == "timeout"
        if pieces:
            break
    assert pieces == ["Half"]


def test_an_answer_that_goes_on_and_on_ends_at_the_callers_deadline(protocol, connect):
    def speak(server, connection):
        connection.sendall(CUT)
        server.drip(connection, itertools.repeat(protocol.piece("x") + protocol.gap))

    for seconds in LIMITS_SECONDS:
        with raw_server(speak) as server, deadlines.within(seconds):
            pieces, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
        assert error.details["error_type"] == "timeout"
        if pieces:
            break
    assert set(pieces) == {"x"}


class Watched:
    """A server that says one piece and then waits until its client hangs up."""

    def __init__(self, protocol):
        self.protocol, self.hung_up = protocol, threading.Event()

    def __call__(self, server, connection):
        connection.sendall(CUT + self.protocol.piece("Half") + self.protocol.gap)
        if not connection.recv(1):
            self.hung_up.set()


def test_closing_the_iterator_hangs_up_and_so_does_an_answer_that_nobody_wants_any_more(protocol, connect):
    watched = Watched(protocol)
    with raw_server(watched) as server:
        stream = connect(server).stream(HELLO)
        assert next(stream) == "Half"
        stream.close()
        assert watched.hung_up.wait(PATIENCE_SECONDS)
    watched, unwanted = Watched(protocol), threading.Event()
    with raw_server(watched) as server:
        stream = connect(server).stream(HELLO, is_unwanted=unwanted.is_set)
        assert next(stream) == "Half"
        unwanted.set()
        pieces_then_error(stream, UnavailableError)
        assert watched.hung_up.wait(PATIENCE_SECONDS)
    with raw_server(silent) as server, limited(ReadLimit(9.0, lambda: True)), pytest.raises(ClientGoneError):
        connect(server).chat(HELLO)


def in_turn(*answers):
    left = iter(answers)
    return lambda server, connection: connection.sendall(next(left))


def test_a_refusal_before_the_first_piece_is_tried_again_unless_the_server_asks_for_a_long_wait(protocol, connect):
    for failure in (response(b"{}", "503", Retry_After="0.01"), sized(protocol.told(503))):
        with raw_server(in_turn(failure, sized(protocol.body("Hi.")))) as server:
            assert list(connect(server).stream(HELLO))[-1].content == "Hi."
            assert len(server.requests) == 2
    with raw_server(saying(response(b'{"error": "slow down"}', "429", Retry_After="77"))) as server:
        _, error = pieces_then_error(connect(server).stream(HELLO), UnavailableError)
        assert len(server.requests) == 1
    assert (error.details["error_type"], error.retry_after_seconds) == ("rate_limit", 30)


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidInputError), (401, ConfigurationError)])
def test_a_refusal_is_that_of_a_whole_answer(protocol, connect, status, kind):
    whole = response(b'{"error": {"message": "no sk-planted-1234"}}', str(status))
    for answer in (whole, sized(protocol.told(status))):
        with raw_server(saying(answer)) as server:
            pieces, error = pieces_then_error(connect(server, api_key=KEY).stream(HELLO), kind)
        assert (pieces, KEY in error.message + str(error.details)) == ([], False)


ENDS = {"eos": "stop", "MAX_TOKENS": "length", "odd": "length", "SAFETY": "content_filter", "error": ""}


@pytest.mark.parametrize(("said", "reason"), ENDS.items())
def test_an_answer_is_whole_only_where_its_end_is_known_to_be_one(protocol, connect, said, reason):
    speak = saying(sized(protocol.body("\n", "So.").replace(b"length", said.encode())))
    with raw_server(speak) as server, nullcontext() if reason else pytest.raises(UnavailableError):
        assert list(connect(server).stream(HELLO)) == ["\nSo.", ChatAnswer("\nSo.", "m-2026", 9, 2, reason)]


def test_openais_newer_name_for_the_limit_is_tried_when_the_older_is_refused():
    speak = in_turn(sized(PROTOCOLS["openai"].told(400)), sized(PROTOCOLS["openai"].body("Hi.")))
    with raw_server(speak) as server, OpenAIProvider({"url": server.url, "model": "o9"}) as connection:
        assert list(connection.stream(HELLO, options={"max_tokens": 5}))[-1].content == "Hi."
        assert b'"max_completion_tokens":5' in server.requests[1]


def test_a_provider_that_does_not_stream_answers_in_one_piece_and_late_errors_are_cleaned_of_secrets():
    class Whole(OllamaProvider):
        _stream, _stream_by = base.ChatProvider._stream, base.ChatProvider._stream_by

        def _chat_by(self, model, messages, options):
            return ChatAnswer(f"I am {model}.", model)

    with Whole({"url": "http://127.0.0.1:9", "model": "m"}) as connection:
        for model, said in ((None, "I am m."), ("n", "I am n.")):
            assert list(connection.stream(HELLO, model=model)) == [said, ChatAnswer(said, model or "m")]

    class Leaking(OllamaProvider):
        def _stream(self, messages, options, is_unwanted):
            yield "Half"
            raise UnavailableError(f"it said {KEY}", reason=KEY)

    context = ProviderContext(redactor=Redactor([KEY]))
    with Leaking({"url": "http://127.0.0.1:9", "model": "m"}, context) as connection:
        pieces, error = pieces_then_error(connection.stream(HELLO), UnavailableError)
    assert pieces == ["Half"]
    assert (error.message, error.details) == ("it said ***", {"reason": "***"})
