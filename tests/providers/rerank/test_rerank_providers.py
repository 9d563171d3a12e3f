"""Every reranking provider keeps the same promises; both protocols are tested on a small server on loopback."""

from contextlib import ExitStack
from dataclasses import replace

import pytest

from providers.base import ProviderContext
from providers.contract_tests import RerankTests
from providers.contract_tests.samples import nobody_there
from providers.outbound import deadlines
from providers.outbound.json_client import RetryPolicy
from providers.outbound.refusals import RefusedTextsError
from providers.rerank.cohere import CohereProvider
from providers.rerank.tei import TEIProvider
from registry.provider_discovery import BUILTINS
from schemas.access.callers import ANYBODY, acting_as
from schemas.connections import InvalidConfigurationError
from schemas.errors import InvalidInputError, UnauthorizedError, UnavailableError
from tests.providers.rerank.rerank_server import ROUTES, rerank_server

KEY = "sk-planted-1234"
QUERY = "how hot is lava"
TEXTS = ["Nothing of it.", "How hot lava is.", "Lava."]


@pytest.fixture
def server():
    with rerank_server() as server:
        yield server


@pytest.fixture(params=[builtin.id for builtin in BUILTINS if builtin.kind == "rerank"])
def connect(request, server):
    """`connect(**config)` builds connections of one protocol; a new kind fails here until it has a line."""
    kind, path, own = {"cohere": (CohereProvider, "/v1", {"model": "m"}), "tei": (TEIProvider, "", {})}[request.param]
    usual = {"url": server.url + path, **own}
    with ExitStack() as opened:
        yield lambda **config: opened.enter_context(kind({**usual, **config}, retry=RetryPolicy(attempts=1)))


class TestEveryRerankProvider(RerankTests):
    @pytest.fixture
    def provider(self, connect):
        return connect(api_key=KEY)

    @pytest.fixture
    def gone(self, connect):
        return connect(url=nobody_there(), api_key=KEY)


def listed(connection, scores):
    """An answer of the connection's protocol with these {index: score} or pairs."""
    name = "relevance_score" if connection.id == "cohere" else "score"
    pairs = scores.items() if isinstance(scores, dict) else scores
    results = [{"index": index, name: score} for index, score in pairs]
    return {"results": results} if connection.id == "cohere" else results


def test_each_protocol_is_asked_in_its_own_words_and_a_server_need_not_sort(connect, server):
    connection = connect(api_key=KEY)
    assert connection.rerank(QUERY, TEXTS) == [0.0, 1.0, 0.25]
    asked = {
        "cohere": ("/v1/rerank", {"model": "m", "query": QUERY, "documents": TEXTS, "top_n": 3}),
        "tei": ("/rerank", {"query": QUERY, "texts": TEXTS, "truncate": True}),
    }
    path, body = asked[connection.id]
    assert server.requests == [(path, f"Bearer {KEY}", body)]
    connection = connect()
    server.script = [(200, listed(connection, {2: -3, 0: 7.5, 1: 0}))]
    assert connection.rerank(QUERY, TEXTS) == [7.5, 0.0, -3.0]
    connection = connect()
    answer = listed(connection, {0: 0.1, 1: 0.2, 2: 0.3})
    for each in answer["results"] if connection.id == "cohere" else answer:
        each["document"] = {"text": "whatever"}
    server.script = [(200, answer)]
    assert connection.rerank(QUERY, TEXTS) == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "scores",
    [
        *({}, {0: 0.1, 1: 0.2}, [(0, 0.1), (1, 0.2), (1, 0.3)], [(0, 0.1), (1, 0.2), (2, 0.3), (0, 0.1)]),
        *([(0, 0.1), (1, 0.2), (place, 0.3)] for place in (3, -1, 1.5, "2", None)),
        *({0: 0.1, 1: 0.2, 2: score} for score in ("0.3", None, True)),
        {0: 0.1, 2: 0.2, True: 0.3},
    ],
)
def test_scores_that_do_not_fit_the_texts_make_an_answer_unusable(connect, server, scores):
    connection = connect()
    server.script = [(200, listed(connection, scores))] * 2
    with pytest.raises(UnavailableError) as caught:
        connection.rerank(QUERY, TEXTS)
    assert caught.value.code == "answer_unusable"
    assert caught.value.details["error_type"] == "unknown"
    assert connection.answered(60) is None


NO_JSON = (b"", b"<html>", b"[{")
OTHER_SHAPES = (None, 7, "scores", {}, {"results": None}, {"results": {}}, [None], [7], [[0, 1]])


@pytest.mark.parametrize("answer", [*OTHER_SHAPES, *NO_JSON])
def test_an_answer_of_another_shape_or_without_json_is_unusable(connect, server, answer):
    server.script = [(200, answer)] * 2
    with pytest.raises(UnavailableError, match="not JSON" if answer in NO_JSON else None) as caught:
        connect().rerank(QUERY, TEXTS)
    assert answer in NO_JSON or caught.value.code == "answer_unusable"


def test_tei_is_asked_for_as_many_texts_as_it_takes_and_no_more_for_a_caller_who_may_not_go_on(server):
    texts = [f"text {number}" for number in range(70)]
    with TEIProvider({"url": server.url, "batch_size": 30}) as connection:
        connection.rerank("text 69", texts)
    assert [len(body["texts"]) for _, _, body in server.requests] == [30, 30, 10]
    with TEIProvider({"url": server.url, "batch_size": 64}) as connection:
        assert connection.rerank("text 69", texts)[-2:] == [0.5, 1.0]
        connection.rerank(QUERY, ["text"] * 40)
    assert [len(body["texts"]) for _, _, body in server.requests[3:]] == [64, 32, 32, 6, 32, 8]

    def still():
        raise UnauthorizedError("ended")

    with (
        TEIProvider({"url": server.url, "batch_size": 30}) as connection,
        acting_as(ANYBODY, still),
        pytest.raises(UnauthorizedError),
    ):
        connection.rerank("text 69", texts)
    assert len(server.requests) == 3 + 6 + 1


@pytest.mark.parametrize("failure", [(500, {"error": "CUDA out of memory"}), (200, {"error": "so not"}), (413, None)])
def test_a_limit_of_texts_is_found_by_halving_and_kept_as_one_of_texts(server, monkeypatch, failure):
    answer = ROUTES["/v1/rerank"]
    monkeypatch.setitem(ROUTES, "/v1/rerank", lambda body: answer(body) if len(body["documents"]) <= 10 else failure)
    texts = [f"text {number}" for number in range(40)]
    context = ProviderContext()
    with CohereProvider(
        {"url": f"{server.url}/v1", "model": "m"}, context, retry=RetryPolicy(attempts=1)
    ) as connection:
        for _ in range(3):
            server.requests.clear()
            assert connection.rerank("text 39", texts)[-1] == 1.0
        assert [len(body["documents"]) for *_, body in server.requests] == [10, 10, 10, 10]
    with CohereProvider({"url": f"{server.url}/v1"}, replace(context, is_trial=True)) as connection:
        assert connection.try_out() == {"model": connection.model, "max_texts_per_call": 7}


@pytest.mark.parametrize("status", [422, 500])
def test_what_a_strict_server_refuses_is_left_out_and_a_text_that_it_refuses_named_with_the_scores_of_the_others(
    connect, server, status
):
    connection, [extra] = connect(), {"cohere": ["top_n"], "tei": ["truncate"]}[connect().id]
    server.script = [(status, {"detail": [{"loc": ["body", extra], "msg": "unexpected keyword argument"}]})]
    assert connection.rerank(QUERY, TEXTS) == connection.rerank(QUERY, TEXTS) == [0.0, 1.0, 0.25]
    assert [extra in body for _, _, body in server.requests] == [True, False, False]
    too_long = (413, {"error": "too many tokens"})
    server.script = [too_long, (200, listed(connection, {0: 0.5, 1: 0.75})), too_long]
    with pytest.raises(RefusedTextsError, match=r"texts\[2\], which begins “Lava.”, is refused") as caught:
        connection.rerank(QUERY, TEXTS)
    assert caught.value.accepted == {0: 0.5, 1: 0.75}


def test_a_service_that_fails_and_says_nothing_is_asked_twice_and_once_for_a_short_text(server):
    server.script = [(500, "Internal Server Error")] * 9
    retry = RetryPolicy(attempts=2, first_wait_seconds=0)
    with TEIProvider({"url": server.url}, retry=retry) as connection, pytest.raises(UnavailableError):
        connection.rerank(QUERY, TEXTS)
    calls = [(len(body["texts"]), "truncate" in body) for *_, body in server.requests]
    assert calls == [(3, True), (3, False), (1, False)]


@pytest.mark.parametrize(
    ("failure", "few", "scored", "said"),
    [
        ((200, None), 1, 99, r"not finite for texts\[7\], .*“bad”"),
        ((500, {"error": "so not"}), 4, 50, r"so not for texts\[7\], .*“bad”"),
        ((400, {"error": "so not"}), 3, 50, r"texts\[7\], which begins “bad”, is refused"),
        ((400, {"error": "query is too long"}), 1, 0, r"query is too long"),
    ],
)
def test_one_document_costs_a_search_few_calls_and_is_named(server, monkeypatch, failure, few, scored, said):
    def answer(body):
        if "bad" not in body["documents"]:
            return ROUTES["/v2/rerank"](body)
        scores = [(at, "nan" if text == "bad" else 0.5) for at, text in enumerate(body["documents"])]
        results = [{"index": at, "relevance_score": float(score)} for at, score in scores]
        return failure if failure[1] else (200, {"results": results})

    monkeypatch.setitem(ROUTES, "/v1/rerank", answer)
    texts = [*(f"text {number}" for number in range(7)), "bad", *(f"text {number}" for number in range(92))]
    retry = RetryPolicy(attempts=2, first_wait_seconds=0)
    with CohereProvider({"url": f"{server.url}/v1", "model": "m"}, retry=retry) as connection:
        for _ in range(3):
            server.requests.clear()
            with deadlines.few_calls(), pytest.raises(InvalidInputError) as caught:
                connection.rerank(QUERY, texts)
            assert (len(server.requests), len(getattr(caught.value, "accepted", ()))) == (few, scored)
        with pytest.raises((InvalidInputError, UnavailableError), match=said) as named:
            connection.rerank(QUERY, texts)
        assert named.value.details.get("index", named.value.details["field"]) == (7 if scored else "query")


def test_a_limit_that_no_words_tell_is_learnt_by_searches_that_give_up_early(server, monkeypatch):
    answer = ROUTES["/v1/rerank"]
    monkeypatch.setitem(
        ROUTES, "/v1/rerank", lambda body: answer(body) if len(body["documents"]) <= 30 else (500, {"error": "no"})
    )
    with CohereProvider({"url": f"{server.url}/v1", "model": "m"}, retry=RetryPolicy(attempts=1)) as connection:
        for _ in range(2):
            with deadlines.few_calls(), pytest.raises(UnavailableError):
                connection.rerank(QUERY, ["text"] * 100)
        with deadlines.few_calls():
            assert len(connection.rerank(QUERY, ["text"] * 100)) == 100
    assert [len(body["documents"]) for *_, body in server.requests] == [100, 50, 50] * 2 + [1] + [25] * 4


def test_the_defaults_are_those_of_the_schema():
    with CohereProvider({}) as cohere, TEIProvider({"url": "http://127.0.0.1:8080"}) as tei:
        assert (cohere.model, cohere.config["url"]) == ("rerank-v3.5", "https://api.cohere.com/v2")
        assert (tei.model, tei.config["batch_size"]) == ("", 32)
    with pytest.raises(InvalidConfigurationError):
        TEIProvider({})
