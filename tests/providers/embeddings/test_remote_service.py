"""A remote embedding service fails in many ways, and each has its own outcome. The tests ask through the OpenAI
connection."""

import socket
import threading
import traceback

import pytest
import structlog

from providers.outbound.json_client import RetryPolicy
from schemas.errors import ConfigurationError, InvalidInputError, RagError, UnavailableError
from tests.support.live import PATIENCE_SECONDS
from tests.support.model_server import DIMENSION, Answer, as_json

KEY = "sk-secret-1234567890"


def failure(connection, kind=UnavailableError) -> RagError:
    with pytest.raises(kind) as caught:
        connection.embed(["hello"])
    return caught.value


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_request_is_repeated_after_a_passing_failure_as_often_as_the_setting_says(server, openai, waits, status):
    server.script = [Answer(status), Answer(status)]
    assert openai().embed(["hello"]).shape == (1, DIMENSION)
    assert len(server.requests) == 3
    first, second = waits
    assert 0.5 <= first <= 0.75
    assert 1.0 <= second <= 1.5
    server.script = [Answer(status)]
    failure(openai(retry=RetryPolicy(attempts=1)))
    assert len(waits) == 2


@pytest.mark.parametrize(("status", "error_type"), [(429, "rate_limit"), (500, "unknown"), (503, "unknown")])
def test_a_request_is_given_up_after_three_failures(server, openai, waits, status, error_type):
    server.script = [as_json({"error": {"message": "overloaded"}}, status)] * 3
    error = failure(openai())
    assert error.details == {"provider": "openai", "error_type": error_type, "status": status, "reason": "overloaded"}
    assert "overloaded" in error.message
    assert len(server.requests) == 3
    assert len(waits) == 2


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        (("7", "0"), [7.0, 0.0]),
        # The fixture's clock stands at 2001-09-09 01:46:40 GMT.
        (("Sun, 09 Sep 2001 01:46:45 GMT", "Sun, 09 Sep 2001 01:00:00 GMT"), [5.0, 0.0]),
        *(((unreadable,), [pytest.approx(0.625, abs=0.125)]) for unreadable in ("soon", "nan", "inf", "")),
    ],
)
def test_a_readable_retry_after_is_obeyed(server, openai, waits, headers, waited):
    server.script = [Answer(429, headers={"Retry-After": header}) for header in headers]
    openai().embed(["hello"])
    assert waits == waited


def test_a_long_retry_after_is_passed_on_instead_of_waited_for(server, openai, waits):
    server.script = [Answer(429, headers={"Retry-After": "3600"})]
    error = failure(openai())
    assert error.retry_after_seconds == 3600
    assert waits == []
    assert len(server.requests) == 1


def test_a_request_on_a_broken_connection_is_repeated_and_a_dead_server_unavailable(server, openai, waits):
    server.script = [Answer(body=None), Answer(body=b"half", headers={"Content-Length": "400"})]
    assert openai().embed(["hello"]).shape == (1, DIMENSION)
    assert len(waits) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused
        error = failure(openai(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
    assert error.details["error_type"] == "network"
    assert len(waits) == 4


@pytest.mark.parametrize("begins", [b"", b'{"data": '], ids=["silent", "falls silent"])
def test_a_server_that_is_silent_times_out_once(server, openai, waits, begins):
    over = threading.Event()

    def silent(body):
        if not begins:
            over.wait(PATIENCE_SECONDS)
        return Answer(200, begins or None, {"Content-Length": "400"}, hold=over)

    server.script = [silent]
    error = failure(openai(timeout_seconds=0.05))
    over.set()
    assert error.details["error_type"] == "timeout"
    assert waits == []


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
    assert "refuses the API key" in refused.message
    assert waits == []
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


@pytest.mark.parametrize("key", ["sk-\nInjected: yes", "two words", "schlüssel", "nul\x00"])
def test_a_key_that_cannot_travel_in_a_header_is_refused_unquoted(openai, key):
    with pytest.raises(ConfigurationError) as caught:
        openai(api_key=key)
    assert caught.value.details["field"] == "api_key"
    assert key not in caught.value.message


NOT_FOUND = {"error": {"message": "The model 'x' does not exist"}}
TOO_LONG = {"detail": "maximum context length is 8192 tokens\x1b[31m" + "!" * 999}
ELSEWHERE = {"Location": "/elsewhere"}


@pytest.mark.parametrize(
    ("statuses", "said", "headers", "kind", "error_type", "words"),
    [
        ((301, 302, 307, 308), {}, ELSEWHERE, ConfigurationError, "invalid_config", "redirects"),
        ((300, 302, 304), {}, {}, ConfigurationError, "invalid_config", "redirects"),
        ((404, 405), NOT_FOUND, {}, ConfigurationError, "not_found", "The model 'x' does not exist"),
        ((400, 413, 422), TOO_LONG, {}, InvalidInputError, "unknown", "maximum context length"),
        ((402,), {}, {}, UnavailableError, "unknown", ""),
    ],
    ids=["redirect", "redirect to nowhere", "operator's", "caller's", "others"],
)
def test_a_refusal_is_told_in_a_sentence_and_not_repeated(
    server, openai, waits, statuses, said, headers, kind, error_type, words
):
    for number, status in enumerate(statuses, start=1):
        server.script = [as_json(said, status, **headers)]
        error = failure(openai(api_key=KEY), kind)
        assert (type(error), error.details["error_type"]) == (kind, error_type), status
        assert words in error.message
        assert error.message.isprintable()
        assert len(error.message) < 400
        assert (len(server.requests), waits) == (number, [])


@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b'{"data": [', b'{"data": [NaN]}', b"\xff\xfe"])
def test_an_answer_that_is_not_json_is_unusable(server, openai, waits, body):
    server.script = [Answer(200, body)]
    error = failure(openai())
    assert "not JSON" in error.message
    assert waits == []


@pytest.mark.parametrize("url", ["", "localhost:11434", "http://user:hunter2@host/v1", "http://host/v1?key=hunter2"])
def test_a_wrong_url_is_refused_at_once_and_unquoted(openai, url):
    with pytest.raises(InvalidInputError, match="URL") as caught:
        openai(url=url)
    assert caught.value.details["error_type"] == "invalid_config"
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
