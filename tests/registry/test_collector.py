"""The collector: one embedding for all collections, asked in parallel, judged in order, failures named."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pytest

from providers.base import ProviderContext, SupportsMetadataFiltering
from providers.outbound import deadlines
from registry.collector import Collector, Thresholds
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from schemas.access.callers import Caller, Kind, Scope, acting_as, carried
from schemas.connections import Connection
from schemas.contracts.collect import CollectRequest, SelectedCollection
from schemas.errors import UnavailableError
from schemas.where import EVERYTHING, all_of, parse_where
from tests.support.live import PATIENCE_SECONDS
from tests.support.logs import logs_of
from tests.support.raw_server import raw_server, silent


@pytest.fixture
def open_collector(connections):
    """`open_collector(**settings)`: a collector that ends with the test."""
    usual = {"thresholds": Thresholds(0.3, 0.6), "limit_seconds": PATIENCE_SECONDS}

    def build(**settings):
        return Collector(connections, QueryEmbeddings(connections, EmbeddingCache(ttl_seconds=60)), **usual | settings)

    with ExitStack() as opened:
        yield lambda **settings: opened.enter_context(closing(build(**settings)))


@pytest.fixture
def collector(open_collector):
    return open_collector()


def request(*names, message="what is it?", topic="", current="", **more):
    selected = tuple(SelectedCollection("local", name, "default") for name in names)
    return CollectRequest(message, topic, current, selected, **more)


def statuses(collected):
    return [each.status for each in collected.receipt.collections]


def test_the_filters_of_caller_and_request_reach_every_connection_and_its_search_is_for_the_caller(
    world, collector, connections
):
    world.add("docs", 0.5)
    red, new, long = (parse_where({name: 1}) for name in ("red", "new", "long"))
    asked = request("docs", where=new)
    asked = replace(asked, collections=(replace(asked.collections[0], where=long),))
    assert statuses(collector.collect(asked)) == ["failed"]  # by a provider that does not filter
    SupportsMetadataFiltering.register(type(connections.open("local", "rag")))
    with acting_as(Caller("k", "k", Kind.KEY, frozenset({Scope.READ}), where=red)):
        collector.collect(asked)
    collector.collect(request("docs"))
    assert world.filters == [all_of(red, new, long), EVERYTHING]
    # The search begins in a thread that has found the collection or embedded the question.
    names = [f"c{number}" for number in range(5)]
    for name in names:
        world.add(name, 0.5)
    reader = Caller("reader", "r", Kind.KEY, frozenset({Scope.READ}))
    for number in range(3):
        with acting_as(reader):
            collected = collector.collect(request(*names, message=f"question {number}"))
        assert "failed" not in statuses(collected)
    assert world.callers[2:] == ["reader"] * 15


def test_five_collections_of_one_connection_need_one_embedding_and_each_connection_and_model_its_own(
    world, collector, connections
):
    for number in range(5):
        world.add(f"c{number}", 0.5)
    collected = collector.collect(request(*(f"c{number}" for number in range(5))))
    assert world.embedded == [("words-1", "what is it?")]
    assert (collected.receipt.embeddings_generated, collected.receipt.embeddings_reused) == (1, 4)
    connections.create(Connection("other", "embedding", "words", {"model": "words-2"}))
    world.add("docs", 0.5)
    selected = tuple(
        SelectedCollection("local", "docs", connection, model)
        for connection, model in (("default", None), ("default", "words-3"), ("other", None), ("default", None))
    )
    collected = collector.collect(CollectRequest("hello", "", "", selected))
    assert sorted(world.embedded[1:]) == [("words-1", "hello"), ("words-2", "hello"), ("words-3", "hello")]
    assert (collected.receipt.embeddings_generated, collected.receipt.embeddings_reused) == (3, 1)


@pytest.mark.parametrize("log_queries", [True, False])
def test_a_question_is_in_the_log_where_the_operator_wants_it(world, open_collector, log_queries, monkeypatch):
    world.add("docs", 0.5)
    collector = open_collector(log_queries=log_queries)
    logs = logs_of(monkeypatch, "registry.collector")
    collector.collect(request("docs"))
    assert ("what is it?" in repr(logs)) == log_queries
    assert "first message (raw query)" in repr(logs)


def test_a_receipt_does_not_tell_what_others_have_asked(world, collector):
    world.add("docs", 0.5)
    told = []
    for name in ("ada", "bob", "ada"):
        with acting_as(Caller(name, name, Kind.KEY, frozenset({Scope.READ}), owner=f"key:{name}")):
            receipt = collector.collect(request("docs", "docs")).receipt
        told.append((receipt.embeddings_generated, receipt.embeddings_reused))
    assert told == [(1, 1), (1, 1), (0, 2)]
    assert len(world.embedded) == 2  # one for each owner


def test_the_first_match_in_the_order_asked_is_the_answer_and_without_one_all_partial_ones_or_none(world, collector):
    world.add("far", 0.9)
    world.add("partial", 0.5)
    world.add("near", 0.29, 0.7)
    world.add("nearest", 0.1)
    collected = collector.collect(request("far", "partial", "near", "nearest"))
    assert collected.result == "match"
    [result] = collected.results
    assert (result.result_type, result.collection, result.distance) == ("match", "near", 0.29)
    assert [document.id for document in result.documents] == ["near-0", "near-1"]
    assert statuses(collected) == ["none", "partial", "match", "match"]
    world.add("a", 0.59)
    world.add("b", 0.7)
    world.add("c", 0.3)
    collected = collector.collect(request("c", "b", "a"))
    assert collected.result == "partial"
    assert [(each.collection, each.result_type) for each in collected.results] == [("c", "partial"), ("a", "partial")]
    world.add("far", 0.6)
    world.add("empty")
    collected = collector.collect(request("far", "empty"))
    assert (collected.result, collected.results) == ("none", [])
    assert statuses(collected) == ["none", "none"]
    assert [each.distance for each in collected.receipt.collections] == [0.6, None]
    assert collector.collect(request()).result == "none"


@pytest.mark.parametrize(
    ("collection", "connection", "asked", "expected"),
    [
        ({"match_threshold": 0.2}, {"match_threshold": 0.9}, 0.9, "partial"),
        ({}, {"match_threshold": 0.2}, 0.9, "partial"),
        ({}, {}, 0.2, "partial"),
        ({}, {}, None, "match"),
        ({"match_threshold": 0}, {}, 0.9, "partial"),
        ({"match_threshold": 0, "partial_threshold": 0}, {}, 0.9, "none"),
        ({"match_threshold": 0.25}, {}, None, "partial"),
        ({"match_threshold": 0.2500001}, {}, None, "match"),
        ({"match_threshold": "0.9"}, {"match_threshold": 0.1}, None, "partial"),
        ({"match_threshold": True}, {}, 0.1, "partial"),
    ],
)
def test_thresholds_come_from_the_collection_then_the_connection_then_the_request(
    world, connections, collector, collection, connection, asked, expected
):
    connections.create(Connection("shelf", "rag", "shelf", connection))
    world.add("docs", 0.25, **collection)
    selected = (SelectedCollection("shelf", "docs", "default"),)
    collected = collector.collect(CollectRequest("hello", "", "", selected, match_threshold=asked))
    assert collected.result == expected


def test_a_failing_collection_is_left_out_and_named_and_a_dead_embedding_service_fails_its_own_only(
    world, collector, connections
):
    world.add("fire", 0.1)
    world.add("docs", 0.5)
    world.down.add("fire")
    collected = collector.collect(request("fire", "missing", "docs"))
    assert [each.collection for each in collected.results] == ["docs"]
    assert statuses(collected) == ["failed", "failed", "partial"]
    assert [each.error for each in collected.receipt.collections] == [
        "The shelf is on fire",
        "Collection 'missing' not found",
        None,
    ]
    connections.create(Connection("dead", "embedding", "words", {"model": "dead"}))
    world.down.add("dead")
    selected = (
        SelectedCollection("local", "docs", "dead"),
        SelectedCollection("local", "docs", "dead"),
        SelectedCollection("local", "docs", "default"),
    )
    collected = collector.collect(CollectRequest("hello", "", "", selected))
    assert statuses(collected) == ["failed", "failed", "partial"]
    assert (collected.receipt.embeddings_generated, collected.receipt.embeddings_reused) == (1, 0)


@pytest.mark.parametrize(
    ("service", "embedding", "complaint"),
    [
        ("nowhere", "default", "Connection 'nowhere' not found"),
        ("local", "nowhere", "Connection 'nowhere' not found"),
        ("default", "default", "is of type embedding, not rag"),
        ("local", "local", "is of type rag, not embedding"),
    ],
)
def test_wrong_connections_fail_alone(world, collector, service, embedding, complaint):
    world.add("docs", 0.5)
    selected = (SelectedCollection(service, "docs", embedding), SelectedCollection("local", "docs", "default"))
    collected = collector.collect(CollectRequest("hello", "", "", selected))
    assert statuses(collected) == ["failed", "partial"]
    assert complaint in collected.receipt.collections[0].error


@pytest.mark.parametrize(
    ("told", "said"),
    [({"embedding_model": "words-9"}, ("'words-9'", "'words-1'")), ({"dimension": 384}, ("dimension 384", "has 4"))],
    ids=["model", "dimension"],
)
def test_vectors_of_another_kind_are_refused_before_the_query_with_both_kinds(world, collector, told, said):
    world.add("docs", 0.1, **told)
    [receipt] = collector.collect(request("docs")).receipt.collections
    assert world.searched == []
    assert all(each in receipt.error for each in said)


def test_documents_carry_title_and_source_by_the_collections_fields_and_top_k_bounds_them(world, collector):
    world.add("docs", 0.1, title_field="n", source_field="nothing", description="All about docs")
    [result] = collector.collect(request("docs")).results
    [document] = result.documents
    assert (document.title, document.source, document.collection) == ("0", None, "docs")
    assert document.metadata == {"title": "Title 0", "n": 0}
    assert result.description == "All about docs"
    world.add("docs", 0.1, 0.2, 0.3, 0.4)
    assert len(collector.collect(request("docs", top_k=2)).results[0].documents) == 2
    world.add("docs", 0.1)
    collected = collector.collect(request("docs", topic="t", current="t", query_text="exactly this"))
    assert world.embedded[-1] == ("words-1", "exactly this")
    assert collected.receipt.query_text == "exactly this"


def test_a_hanging_service_leaves_every_other_service_its_threads(world, registry, connections, open_collector):
    gate = threading.Event()

    class Hanging(registry.provider("rag", "shelf")):
        id = "hanging"

        def search(self, collection, embedding, *, top_k=3, where=EVERYTHING):
            assert gate.wait(PATIENCE_SECONDS)
            return super().search(collection, embedding, top_k=top_k, where=where)

    registry.register(Hanging)
    connections.create(Connection("hanging", "rag", "hanging", {}))
    world.add("docs", 0.1)
    collector = open_collector()
    stuck_on = (SelectedCollection("hanging", "docs", "default"),) * 8
    with ThreadPoolExecutor(8) as pool:
        stuck = [pool.submit(carried(collector.collect), CollectRequest("hello", "", "", stuck_on)) for _ in range(8)]
        assert collector.collect(request("docs")).result == "match"
        assert not any(each.done() for each in stuck)
        gate.set()
        assert {each.result().result for each in stuck} == {"match"}


def test_a_collection_that_never_answers_is_left_out_in_time_and_without_time_none_is_asked(world, open_collector):
    world.add("docs", 0.1)
    collector = open_collector(limit_seconds=0)
    collected = collector.collect(request("docs", "docs"))
    assert (statuses(collected), world.embedded, world.searched) == (["failed", "failed"], [], [])
    world.gate = threading.Event()
    collector = open_collector(limit_seconds=0.05)
    collected = collector.collect(request("docs"))
    world.gate.set()
    assert statuses(collected) == ["failed"]
    # The limit of the whole query, or what was left of it when the text was to be embedded.
    assert re.search(r"o answer within 0(\.0[1-5])? s$", collected.receipt.collections[0].error)


def test_the_deadline_of_a_query_cuts_the_sockets_of_a_service_that_says_nothing(world):
    """The threads are free again when the query is over, though the service never answers."""
    registry = discover(ProviderRegistry(), strangers=[])
    with raw_server(silent) as server:
        for provider in (
            registry.connect("embedding", "openai", {"url": server.url}, ProviderContext()),
            registry.connect("embedding", "ollama", {"url": server.url}, ProviderContext()),
        ):
            with deadlines.within(0.05), provider, pytest.raises(UnavailableError, match="in the time that was left"):
                provider.embed(["hello"])
        for name in ("chromadb-wrapper", "chromadb", "qdrant"):
            connected = registry.connect("rag", name, {"url": server.url}, ProviderContext())
            with deadlines.within(0.05), connected, pytest.raises(UnavailableError):
                connected.search("docs", np.ones(4, dtype=np.float32))
