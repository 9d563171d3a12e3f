"""Reranking the results of a search, whatever the connection does."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from providers.outbound.refusals import RefusedTextsError
from providers.rerank.base import RerankProvider, UnusableScoreError
from retrieval.search.reranking import RERANKED, Reranking
from schemas.access.callers import ANYBODY, acting_as, carried
from schemas.connections import Connection
from schemas.contracts.rerank import RerankDocument, RerankRequest
from schemas.contracts.search import FusedResult
from schemas.errors import InvalidInputError, UnauthorizedError
from tests.support.live import PATIENCE_SECONDS


class Scripted(RerankProvider):
    """A provider of another package that does what `act` says, in its own time."""

    id = "scripted"
    display_name = "Scripted"
    act = staticmethod(lambda texts: [float(len(text)) for text in texts])

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {}, "additionalProperties": False}

    def __init__(self, config, context=None):
        self.config, self.context = {}, context
        self.model = "scripted"
        self._answered_at = None

    def close(self):
        pass

    def _rerank(self, query, texts):
        return Scripted.act(texts)


@pytest.fixture(scope="module")
def reranking(connections):
    connections.registry.register(Scripted)
    with acting_as(ANYBODY):
        connections.create(Connection("scripted", "rerank", "scripted", {}))
    made = Reranking(connections)
    yield made
    made.close()
    with acting_as(ANYBODY):
        connections.delete("scripted")


@pytest.fixture
def act(monkeypatch):
    return lambda action: monkeypatch.setattr(Scripted, "act", staticmethod(action))


def found(*texts):
    return [FusedResult(text, "shelf", text, text, 0.5, 0.1, (), {}, {}) for text in texts]


def test_the_first_results_are_returned_in_the_order_of_the_connection(reranking):
    results = found("a", "ccc", "bb", *(f"later {number}" for number in range(RERANKED)))
    order, receipt = reranking.reordered("scripted", "q", results, PATIENCE_SECONDS)
    assert len(order) == RERANKED
    assert [each.content for each in order[-3:]] == ["ccc", "bb", "a"]
    assert order[-1].rerank_score == 1.0
    assert (receipt.connection, receipt.status, receipt.count, receipt.error) == ("scripted", "ok", RERANKED, None)
    order, _ = reranking.reordered("scripted", "q", found("b", "a", "c"), PATIENCE_SECONDS)
    assert [each.content for each in order] == ["b", "a", "c"]


def test_a_connection_is_not_asked_for_a_caller_who_may_not_go_on_nor_about_nothing(reranking, act):
    act(lambda texts: pytest.fail("nobody is asked about nothing"))
    order, receipt = reranking.reordered("scripted", "q", [], PATIENCE_SECONDS)
    assert (order, receipt.status, receipt.count) == ([], "ok", 0)
    act(lambda texts: pytest.fail("the model was told of the documents"))

    def still():
        raise UnauthorizedError("the key was revoked")

    with acting_as(ANYBODY, still), pytest.raises(UnauthorizedError):
        reranking.reordered("scripted", "q", found("a", "b"), PATIENCE_SECONDS)


def test_results_that_the_model_refuses_keep_their_places_and_are_told(reranking, act):
    def refuse(texts):
        raise RefusedTextsError(texts, {0: InvalidInputError("too long")}, {1: -2.0, 2: -1.0})

    act(refuse)
    order, receipt = reranking.reordered("scripted", "q", found("a", "b", "c"), PATIENCE_SECONDS)
    assert [(each.content, each.rerank_score) for each in order] == [("a", None), ("c", -1.0), ("b", -2.0)]
    assert (receipt.status, receipt.count) == ("ok", 2)
    assert receipt.error == "texts[0], which begins “a”, is refused: too long"

    def spoil(texts):
        raise UnusableScoreError("a", "no score", error_type="unknown").among(texts)

    act(spoil)
    with pytest.raises(UnusableScoreError, match=r"^no score for documents\[1\], which begins “a”$"):
        reranking.rerank(
            RerankRequest("q", (RerankDocument("1", "b"), RerankDocument("2", "a")), connection="scripted")
        )


def test_a_connection_that_heeds_no_deadline_is_not_waited_for(reranking, act):
    over = threading.Event()
    act(lambda texts: [0.0 for _ in texts if over.wait(PATIENCE_SECONDS)])
    try:
        order, receipt = reranking.reordered("scripted", "q", found("a", "b"), 0.05)
    finally:
        over.set()
    assert [(each.content, each.rerank_score) for each in order] == [("a", None), ("b", None)]
    assert (receipt.status, receipt.count) == ("failed", 0)
    assert "No answer within" in receipt.error


def test_a_connection_that_hangs_holds_up_no_other(reranking, connections, act):
    over, hanging = threading.Event(), threading.Semaphore(0)

    def hang(texts):
        if texts == ["hang"]:
            hanging.release()
            assert over.wait(PATIENCE_SECONDS)
        return [float(len(text)) for text in texts]

    act(hang)
    connections.create(Connection("hanging", "rerank", "scripted", {}))
    with ThreadPoolExecutor(40) as pool:
        reorder = carried(reranking.reordered)
        asked = [pool.submit(reorder, "hanging", "q", found("hang"), PATIENCE_SECONDS) for _ in range(40)]
        try:
            assert hanging.acquire(timeout=PATIENCE_SECONDS)
            order, receipt = reranking.reordered("scripted", "q", found("a", "bb"), PATIENCE_SECONDS)
        finally:
            over.set()
    connections.delete("hanging")
    assert ([each.content for each in order], receipt.status) == (["bb", "a"], "ok")
    assert {each.result()[1].status for each in asked} == {"ok"}


def test_a_defect_of_a_provider_fails_no_search(reranking, act):
    act(lambda texts: texts[99])
    order, receipt = reranking.reordered("scripted", "q", found("a"), PATIENCE_SECONDS)
    assert [each.content for each in order] == ["a"]
    assert (receipt.status, receipt.error) == ("failed", "It failed for a reason that is in the log")


def test_the_local_implementation_prefers_what_the_best_are_like(reranking):
    texts = ["zzz", "zebra", "zebras and zebus", "bee"]
    documents = tuple(RerankDocument(text, text) for text in texts)
    answer = reranking.rerank(RerankRequest("zebra", documents))
    assert answer.reranked[0].id == "zebra"
    assert {each.id: each.original_rank for each in answer.reranked} == {
        text: rank for rank, text in enumerate(texts, start=1)
    }
    assert answer.connection is None
