"""What is asked of OpenAI's and Ollama's protocols, and what their answers must be like. A remote embedding service fails in
many ways, and each has its own outcome; those tests ask through the OpenAI connection."""

import base64
import socket
import traceback
from contextlib import ExitStack

import numpy as np
import pytest
import structlog

from providers.base import ProviderContext
from providers.embeddings.openai import OpenAIProvider
from providers.outbound.call_sizes import OwnCallSizes
from providers.outbound.json_client import RetryPolicy
from providers.outbound.refusals import RefusedTextsError
from retrieval.ingest.embedding_texts import embed_or_name
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from tests.support.model_server import DIMENSION, Answer, as_json, openai_answer, vector

KEY = "sk-secret-1234567890"


def failure(connection, kind=UnavailableError) -> RagError:
    with pytest.raises(kind) as caught:
        connection.embed(["hello"])
    return caught.value


BUSY, NOTHING = (
    "failed to encode inputs: the input queue is too long, too many requests in batch",
    "Internal Server Error",
)


@pytest.mark.parametrize(("status", "said"), [(500, BUSY), (502, BUSY), (503, BUSY), (500, NOTHING)])
def test_a_request_is_sent_three_times_while_it_fails_in_passing_or_as_often_as_the_setting_says(
    server, openai, waits, status, said
):
    failing, is_silent = [as_json({"error": {"message": said}}, status)], said == NOTHING
    server.script = failing * (6 + is_silent)
    error = failure(openai())
    assert error.details == {"provider": "openai", "error_type": "unknown", "status": status, "reason": said}
    first, second = waits
    assert (0.5 <= first <= 0.75, 1.0 <= second <= 1.5, said in error.message) == (True, True, True)
    failure(openai(retry=RetryPolicy(attempts=1)))
    assert openai().embed(["hello"] * 32).shape == (32, DIMENSION)
    assert (len(server.requests), len(waits)) == (3 + (1 + is_silent) + 3, 4)
    server.requests.clear()
    server.script = failing * 9
    with pytest.raises(UnavailableError):
        embed_or_name(lambda connection, some: connection.embed(some), openai(), ["hello"] * 20)
    assert [len(request.body["input"]) for request in server.requests] == [20, 20, 20, 1]


@pytest.mark.parametrize(
    ("status", "after", "rest"),
    [
        *(
            (429, useless, 2.0)
            for useless in (None, "0", "-5", "soon", "nan", "inf", "", "9" * 5000, "Mon, 01 Jan 0001 00:00:00 -0000")
        ),
        # The fixture's clock stands at 2001-09-09 01:46:40 GMT.
        *((429, "Sun, 09 Sep 2001 01:00:00 GMT", 2.0), (503, "Sun, 09 Sep 2001 01:46:45 GMT", 5.0)),
        *((503, "0", 2.0), (529, "1.5", 1.5), (503, "20", 20.0), (429, "3600", 30.0)),
    ],
)
def test_a_service_is_left_alone_as_long_as_it_asks_and_waited_for_two_seconds_at_most(
    server, openai, waits, status, after, rest
):
    server.script = [Answer(status, headers={} if after is None else {"Retry-After": after})] * 3
    connection = openai()
    error = failure(connection)
    asked = 3 if rest <= 2 else 1
    assert (waits, error.details["error_type"]) == ([rest] * (asked - 1), "rate_limit" if status == 429 else "unknown")
    assert error.retry_after_seconds == -(-rest // 1)
    waits.append(rest * 0.99)
    assert failure(connection).message == error.message
    assert len(server.requests) == asked
    server.script.clear()
    waits.append(rest * 0.02)
    connection.embed(["hello"])


def test_nobody_asks_a_service_while_another_call_waits_for_it(server):
    now, others = [0.0], []

    def sleep(seconds):
        others.append(failure(connection))
        now[0] += seconds

    server.script = [Answer(429), Answer(429)]
    with OpenAIProvider({"url": f"{server.url}/v1"}, sleep=sleep, monotonic=lambda: now[0]) as connection:
        connection.embed(["hello"])
    assert (len(server.requests), len(others)) == (3, 2)


def test_a_request_on_a_broken_connection_is_repeated_and_a_dead_server_unavailable(server, openai, waits):
    server.script = [Answer(body=None), Answer(body=b"half", headers={"Content-Length": "400"})]
    assert openai().embed(["hello"]).shape == (1, DIMENSION)
    assert len(waits) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused
        error = failure(openai(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
    assert error.details["error_type"] == "network"
    assert len(waits) == 4


def test_a_wrong_key_is_the_operators_business_and_stays_secret_and_a_missing_one_is_called_missing(
    server, openai, waits
):
    said = {"error": {"message": f"Incorrect API key provided: {KEY[:8]}*******7890"}}
    server.script = [as_json(said, 401), as_json(said, 403)]
    connection = openai(api_key=KEY)
    refused, forbidden = (failure(connection, ConfigurationError) for _ in range(2))
    for error, error_type in ((refused, "authentication"), (forbidden, "authorization")):
        assert error.details["error_type"] == error_type
        assert "7890" not in str(error) + str(error.details)
    assert ("refuses the API key" in refused.message, waits) == (True, [])
    server.script = [Answer(401)]
    assert "demands an API key" in failure(openai(), ConfigurationError).message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500])
def test_the_key_is_in_no_error_no_log_and_no_traceback(server, openai, status):
    server.script = [as_json({"error": {"message": f"you sent Bearer {KEY}"}}, status)] * 3
    connection = openai(api_key=KEY)
    with structlog.testing.capture_logs() as logs:
        error = failure(connection, RagError)
    assert KEY not in "".join(traceback.format_exception(error)) + str(vars(error)) + repr(connection) + str(logs)
    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert all(KEY not in request.path + str(request.body) for request in server.requests)


NOT_FOUND = {"error": {"message": "The model 'x' does not exist"}}
TOO_LONG = {"detail": "maximum context length is 8192 tokens\x1b[31m" + "!" * 999}
ELSEWHERE = {"Location": "/elsewhere"}


@pytest.mark.parametrize(
    ("statuses", "said", "headers", "kind", "error_type", "words"),
    [
        ((301, 302, 307, 308), {}, ELSEWHERE, ConfigurationError, "invalid_config", "redirects"),
        ((300, 302, 304), {}, {}, ConfigurationError, "invalid_config", "redirects"),
        ((404, 405, 410), NOT_FOUND, {}, ConfigurationError, "not_found", "The model 'x' does not exist"),
        ((400, 413, 422), TOO_LONG, {}, InvalidInputError, "unknown", "maximum context length"),
        ((402,), NOT_FOUND, {}, ConfigurationError, "authorization", "demands to be paid (HTTP 402): The model"),
    ],
)
def test_a_refusal_is_told_in_a_sentence_and_not_repeated(
    server, openai, waits, statuses, said, headers, kind, error_type, words
):
    for number, status in enumerate(statuses, start=1):
        server.script = [as_json(said, status, **headers)]
        error = failure(openai(api_key=KEY), kind)
        assert (isinstance(error, kind), error.details["error_type"]) == (True, error_type), status
        assert (words in error.message, error.message.isprintable(), len(error.message) < 400) == (True, True, True)
        assert (len(server.requests), waits) == (number, [])


def test_base64_is_requested_and_index_gives_the_order(server, openai):
    texts = ["one", "two", "three"]  # the stub answers last first
    vectors = openai(model="m").embed(texts)
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    assert server.requests[0].body == {"model": "m", "encoding_format": "base64", "input": texts}
    server.script = [as_json({"data": [{"embedding": [1, 0]}, {"embedding": [0.5, 2]}]})]
    np.testing.assert_array_equal(openai().embed(["a", "b"]), [[1, 0], [0.5, 2]])
    server.script = [lambda body: openai_answer(body, plain=True)]
    np.testing.assert_allclose(openai().embed(["one", "two"]), [vector("one"), vector("two")], rtol=1e-6)


STRICT = [{"type": "literal_error", "loc": ["body", "encoding_format"], "msg": "Input should be 'float'"}]


@pytest.mark.parametrize(
    "refusal",
    [
        as_json({"error": {"message": "Unknown parameter: 'encoding_format'."}}, 400),
        *(as_json({"error": "Unsupported value: base64"}, 400), as_json({"error": "base64 not implemented"}, 501)),
        *(as_json({"message": "encodingFormat is not one of float"}, 400), as_json({"detail": STRICT}, 422)),
        as_json({"errors": {"": ["Extra inputs are not permitted"]}}, 422),
        as_json({"error": {"message": "Only float encoding is supported"}}, 500),
        as_json({"detail": {"encoding_format": ["invalid choice"]}}, 500),
        *(Answer(422, b"<html><title>422 Unprocessable Entity</title>"), Answer(400)),
        *(as_json({"error": "unsupported encoding_format"}), as_json({"message": "encoding_format"}, 415)),
        *(as_json({"error": "encoding_format not found"}, 404), Answer(500, b"Internal Server Error")),
    ],
)
def test_a_server_that_refuses_base64_in_whatever_words_is_no_longer_asked_for_it(server, openai, refusal):
    server.script = [refusal] * (2 if refusal.status == 500 and b"{" not in refusal.body else 1)
    attempts, connection = len(server.script), openai()
    np.testing.assert_allclose(connection.embed(["one"]), [vector("one")], rtol=1e-6)
    connection.embed(["two"])
    assert ["encoding_format" in request.body for request in server.requests] == [True] * attempts + [False, False]


def test_a_server_that_has_answered_is_asked_without_base64_for_a_vague_refusal_but_seldom(server, openai):
    connection, vague = openai(), as_json({"error": "Invalid request parameters"}, 400)
    connection.embed(["one"])
    server.script = [vague] * 3
    for _ in range(2):
        failure(connection, InvalidInputError)
    assert ["encoding_format" in request.body for request in server.requests] == [True, True, False, True]
    connection._fields._doubts_at = 0.0
    server.script = [vague]
    assert [connection.embed([each]).shape for each in ("one", "two")] == [(1, DIMENSION)] * 2
    assert ["encoding_format" in request.body for request in server.requests[4:]] == [True, False, False]


@pytest.mark.parametrize(
    "said",
    [
        *("Rate limit reached on tokens per min: Limit 1,000, Used 990, Requested 900", "You exceeded your quota"),
        *("Too many tokens, please wait before trying again.", "too many input tokens per minute", "slow down"),
        *("Please reduce the number of requests", "Input tokens exceed the daily limit", "too many input tokens/min"),
    ],
)
def test_a_limit_of_many_calls_together_is_never_halved(server, openai, said):
    server.routes["/v1/embeddings"] = lambda body: as_json({"error": {"message": said}}, 429)
    with pytest.raises(UnavailableError) as caught:
        openai().embed([f"text {number}" for number in range(20)])
    assert caught.value.details["error_type"] == "rate_limit"
    assert sizes_of(server) == [20] * 3


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"detail": STRICT}, "encoding_format: Input should be 'float'"),
        ([{"error": {"message": "too long", "code": 400}}], "too long"),
        ({"message": ["one", "two"], "error": "Bad Request"}, "one; two"),
        ({"title": "Faulty", "errors": {"input": ["too many"]}}, "Faulty: input: too many"),
        ({"error": {"message": f"about {KEY}"}}, "about ***"),
        *((b"too\nlong", "too long"), (b"<!DOCTYPE html><title>\nToo &amp; long</title>", "Too & long")),
        *(([[[[[[[["deep"]]]]]]]], None), (b'{"detail": "cut', None)),
    ],
)
def test_a_service_is_quoted_from_whatever_shape_its_words_come_in(server, openai, said, shown):
    server.script = [Answer(418, said) if isinstance(said, bytes) else as_json(said, 418)]
    assert failure(openai(api_key=KEY)).details.get("reason") == shown


def at_most(texts, refusal, status=400):
    return lambda body: openai_answer(body) if len(body["input"]) <= texts else as_json({"detail": refusal}, status)


@pytest.fixture
def sharing(server):
    """`sharing()`: connections that share what they learn, at the time `sharing.now`."""
    sizes = OwnCallSizes()
    with ExitStack() as opened:

        def connect(**context):
            context = ProviderContext(call_sizes=sizes, **context)
            made = OpenAIProvider({"url": f"{server.url}/v1"}, context, clock=lambda: connect.now, sleep=lambda _: None)
            return opened.enter_context(made)

        connect.now = 1e9
        yield connect


def sizes_of(server):
    sizes = [len(request.body["input"]) for request in server.requests]
    server.requests.clear()
    return sizes


@pytest.mark.parametrize(
    "refusal",
    [
        *(["it should not be larger than 10"], ["too many"], ["too many tokens in batch"], ["too many inputs", 500]),
        ["input (400 tokens) is too large to process", 500],
        *([each, 429] for each in ("it should not be larger than 10, the batch size", "too many documents: 32 > 10")),
        ["Request too large for m: Limit 100, Requested 640", 429],
        ["Rate limit of m, Limit: 100, Used: 0, Requested: 640", 429],
    ],
)
def test_a_limit_of_texts_or_tokens_is_found_by_halving_and_known_to_all_who_ask(server, sharing, refusal):
    later, parts = ([10, 10, 10, 2], [10]) if "10" in refusal[0].replace("100", "") else ([8, 8, 8, 8], [16, 8])
    first = [32, *parts, *later[1:]]
    server.routes["/v1/embeddings"] = at_most(10, *refusal)
    texts = [f"text {number:02}" for number in range(32)]
    vectors = sharing().embed(texts)
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    assert sizes_of(server) == first
    connection = sharing()
    connection.embed(texts)
    assert sizes_of(server) == later
    sharing.now += 90_000
    connection.embed(texts)
    assert sizes_of(server) == first, "a larger call is tried again after a day"
    server.routes["/v1/embeddings"] = openai_answer
    assert "max_texts_per_call" not in sharing(is_trial=True).try_out()
    sharing.now += 60
    connection.embed(texts)
    assert sizes_of(server) == [32, 32], "a test found the limit gone, and all know"


@pytest.mark.parametrize(
    "failure",
    [
        *(*map(Answer, (409, 500, 501, 502, 504)), Answer(body=None)),
        as_json({"error": {"message": "CUDA out of memory. Tried to allocate 2.00 GiB"}}, 500),
        *map(as_json, ({"object": "error", "message": "so not"}, {"data": [{"embedding": [1.0] * DIMENSION}] * 10})),
    ],
)
def test_a_limit_that_no_words_tell_is_found_by_halving_in_few_calls_and_known_when_it_shows_again(
    server, sharing, failure
):
    server.routes["/v1/embeddings"] = lambda body: openai_answer(body) if len(body["input"]) <= 10 else failure
    texts, connections = [f"text {number:02}" for number in range(32)], [sharing(), sharing()]
    for connection, is_known in ((0, False), (1, False), (0, False), (0, True), (1, True)):
        sharing.now += 60
        vectors = connections[connection].embed(texts)
        np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
        sizes = sizes_of(server)
        assert sizes.count(32) <= 3
        assert sizes == ([] if is_known else [32] * sizes.count(32) + [1, 16]) + [8, 8, 8, 8]
    server.routes["/v1/embeddings"] = openai_answer
    assert "max_texts_per_call" not in sharing(is_trial=True).try_out()


@pytest.mark.parametrize("status", [401, 403, 404, 451])
def test_a_text_that_a_filter_forbids_is_named_in_the_services_words_and_nothing_of_the_key(server, openai, status):
    said = {"error": {"message": f"blocked by policy, key sk-s****{KEY[-4:]}"}}
    server.routes["/v1/embeddings"] = lambda body: (
        as_json(said, status) if "bad" in body["input"] else openai_answer(body)
    )
    with pytest.raises(InvalidInputError, match=r"\(“bad”\) cannot be embedded: .*: blocked by policy") as caught:
        embed_or_name(lambda asked, some: asked.embed(some), openai(api_key=KEY), [*"abcdefgh", "bad"])
    assert status not in (401, 403) or KEY[-4:] not in str(caught.value) + str(caught.value.details)
    assert len(server.requests) <= 9


def strings_only(status, refusal):
    def answer(body):
        if isinstance(given := body["input"], list):
            return as_json(refusal, status)
        return as_json("No", 400) if given == "bad" else openai_answer({**body, "input": [given]})

    return answer


@pytest.mark.parametrize(
    ("status", "refusal", "wasted"),
    [
        (422, {"detail": [{"loc": ["body", "input"], "msg": "Input should be a valid string"}, *STRICT]}, 2),
        (400, {"error": {"message": "Invalid request: input must be a string"}}, 1),
        (500, "json: cannot unmarshal array into Go struct field .input of type string", 1),
        (422, {"detail": "input: unsupported value"}, 2),
    ],
)
def test_a_server_that_takes_strings_only_gets_each_text_alone_and_all_know(server, sharing, status, refusal, wasted):
    server.routes["/v1/embeddings"] = strings_only(status, refusal)
    texts = [f"text {number}" for number in range(2)]
    for calls in (wasted + 2, 2):
        np.testing.assert_array_equal(sharing().embed(texts), [vector(text) for text in texts])
        assert len(sizes_of(server)) == calls
    assert sharing(is_trial=True).try_out()["max_texts_per_call"] == 1
    with pytest.raises(RefusedTextsError) as caught:
        sharing().embed(["good", "bad"])
    assert caught.value.refused.keys() == {1}


def refusing(body):
    return as_json({"error": "no bad"}, 400) if any("bad" in text for text in body["input"]) else openai_answer(body)


def test_a_text_that_is_refused_is_named_and_the_others_are_embedded_in_few_calls(server, sharing):
    server.routes["/v1/embeddings"] = refusing
    texts = [f"bad text {number}" if number in (3, 27) else f"text {number}" for number in range(32)]
    with pytest.raises(
        RefusedTextsError, match=r"texts\[3\], which begins “bad text 3”, \(and 1 more\) .*: no bad"
    ) as caught:
        sharing().embed(texts)
    assert (caught.value.details["index"], caught.value.refused.keys()) == (3, {3, 27})
    assert {each.message for each in caught.value.refused.values()} == {caught.value.refused[3].message}
    accepted = caught.value.accepted
    assert accepted.keys() == {*range(32)} - {3, 27}
    np.testing.assert_array_equal(accepted[31], vector("text 31"))
    assert len(sizes_of(server)) <= 1 + 2 * 2 * 5
    sharing().embed(["text"] * 32)
    assert sizes_of(server) == [32], "nothing was learnt of the size"
    for bad in (range(32), (0, 1, 2)):
        with pytest.raises(InvalidInputError) as caught:
            sharing().embed([f"bad {number}" if number in bad else "good" for number in range(32)])
        assert isinstance(caught.value, RefusedTextsError) == (len(bad) < 32)
        assert len(sizes_of(server)) <= 20, "what refuses everything is not asked about each text"


def test_a_dimension_that_is_refused_is_left_out_where_the_model_has_it_anyway(server, openai):
    server.script = [as_json({"detail": "Model does not support dimensions"}, 400)]
    assert openai(dimension=DIMENSION).embed(["one"]).shape == (1, DIMENSION)
    server.script = [as_json({"detail": "Model does not support dimensions"}, 400)]
    assert "does not support dimensions" in failure(openai(dimension=256), ConfigurationError).message


def test_texts_go_in_batches_and_large_ones_in_small_ones(server, openai):
    texts = [f"text {number}" for number in range(130)]
    vectors = openai().embed(texts)
    assert [len(request.body["input"]) for request in server.requests] == [64, 64, 2]
    np.testing.assert_array_equal(vectors, [vector(text) for text in texts])
    texts = ["ä" * 150_000, "b" * 300_000, "c" * 100_000, "d" * 600_000, "e"]
    openai().embed(texts)
    beginnings = ["".join(text[0] for text in request.body["input"]) for request in server.requests[3:]]
    assert beginnings == ["ä", "bc", "d", "e"]


def test_a_dimension_is_requested_and_checked_and_one_that_changes_noticed(server, openai):
    connection = openai(dimension=256)
    assert connection.dimension == 256
    with pytest.raises(ConfigurationError, match="dimension 8 where 256 is expected"):
        connection.embed(["one"])
    assert server.requests[0].body["dimensions"] == 256
    connection = openai()
    assert connection.dimension is None
    connection.embed(["one"])
    assert connection.dimension == DIMENSION
    server.script = [as_json({"data": [{"index": 0, "embedding": [1.0, 2.0]}]})]
    with pytest.raises(ConfigurationError, match=r"dimension 2 where 8 .* re-embed"):
        connection.embed(["two"])


def item(embedding, index=0):
    return {"index": index, "embedding": embedding}


def base64_of(values):
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()


ITEMS = ([item([1.0, 2.0])] * 3, [item([1.0])] * 2, [item([]), item([], 1)], [item([10**400])] * 2)
MALFORMED = [[], *({"data": each} for each in ITEMS)]
BAD_VECTORS = ([1.0, 2.0], [np.nan], [None], None, [True], [1e39], "not base64!", "AAA=", base64_of([np.nan]))
NO_JSON = (b"", b"<html>welcome</html>", b'{"data": [', b'{"data": [nan]}', b"\xff\xfe")
NAMED = r" for texts\[1\], which begins “two”$"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        *((as_json(each), None) for each in MALFORMED),
        *((as_json({"data": [item(base64_of([1.0])), item(each, 1)]}), NAMED) for each in BAD_VECTORS),
        *((Answer(200, each), "not JSON") for each in NO_JSON),
        (as_json({"error": {"message": "Model crashed"}}), "answered with an error: Model crashed"),
        (as_json({"error": "Too much", "code": "409"}), r"failed \(HTTP 200\): Too much"),
    ],
)
def test_a_malformed_answer_is_unusable(server, openai, waits, answer, said):
    server.routes["/v1/embeddings"] = lambda _: answer
    with pytest.raises(UnavailableError, match=said):
        openai().embed(["one", "two"])
    assert (len(server.requests) > 1 + (said != NAMED), waits) == (False, [])


TEXTS = ["one", "two", "three"]


def test_an_old_server_is_asked_text_by_text_and_for_the_missing_route_only_once(server, ollama):
    del server.routes["/api/embed"]
    connection = ollama(model="m")
    vectors = connection.embed(TEXTS)
    connection.embed(["four"])
    assert [request.path for request in server.requests] == ["/api/embed"] + ["/api/embeddings"] * 4
    bodies = [request.body for request in server.requests[:2]]
    assert bodies == [{"model": "m", "input": TEXTS}, {"model": "m", "prompt": "one"}]
    # The stub's old route does not normalise, as Ollama's does not.
    np.testing.assert_allclose(vectors, [vector(text) for text in TEXTS], rtol=1e-5)


@pytest.mark.parametrize(
    ("route", "said"),
    [
        *((name, "ollama pull nomic-embed-text") for name in ("embed", "embeddings")),
        ("none", "does not know the route"),
    ],
)
def test_an_unknown_model_is_named_with_the_remedy_and_a_server_with_neither_route_is_not_ollama(
    server, ollama, route, said
):
    def unknown(body):
        return as_json({"error": f'model "{body["model"]}" not found, try pulling it first'}, 404)

    server.routes = {f"/api/{route}": unknown}
    with pytest.raises(ConfigurationError, match=said) as caught:
        ollama().embed(TEXTS)
    assert caught.value.details["error_type"] == "not_found"


def test_a_vector_of_zeros_stays_one(server, ollama):
    server.routes = {"/api/embeddings": lambda body: as_json({"embedding": [0.0, 0.0]})}
    np.testing.assert_array_equal(ollama().embed(["one"]), [[0.0, 0.0]])
