"""What happens while a question is embedded: another connection hangs, or a collection is given another model."""

import threading
import time
from itertools import count
from types import SimpleNamespace

import pytest

from providers.local import LocalProvider
from registry.collector import Collector, Thresholds
from registry.connection_threads import ConnectionThreads
from registry.embedding import queries
from registry.embedding.queries import AskedEmbeddings, EmbeddingMismatchError
from registry.stored_connections import ConnectionNotFoundError
from retrieval.search.oracles import base, semantic
from retrieval.search.oracles.base import Question
from retrieval.search.oracles.semantic import SemanticOracle
from retrieval.text_collections import TextCollections
from schemas.connections import CollectionInfo
from schemas.contracts.collect import CollectRequest, SelectedCollection
from schemas.contracts.search import SearchRequest
from schemas.errors import UnavailableError
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.search.conftest import BOOKS
from tests.support.live import PATIENCE_SECONDS
from wrapper.writing import AS_IT_COMES

USUAL, NARROW = "letters-1", "letters-a-m"
ON_NARROW = {"embedding_provider": "letters", "embedding_model": NARROW, "embedding_connection": "narrow"}
SHELF = "meanwhile-narrow"
TOLD = "Collection '{}' holds embeddings of 'letters-new', the query's would be of 'letters-a-m'"
NUMBERS = count()


@pytest.fixture(scope="module")
def shelf(library, shelve):
    return shelve(SHELF, {"eagle": "eagle eagle"}, letters=LetterEmbedding(NARROW, dimension=13), **ON_NARROW)


@pytest.fixture
def while_embedding(monkeypatch):
    """`while_embedding(model, do)`: `do()` is called whenever that model embeds, before it answers."""

    def while_embedding(model, do):
        embed = LetterEmbedding._embed

        def embed_meanwhile(self, texts):
            if self.model == model:
                do()
            return embed(self, texts)

        monkeypatch.setattr(LetterEmbedding, "_embed", embed_meanwhile)

    return while_embedding


@pytest.fixture
def when_asked(monkeypatch):
    """`when_asked(name, do)`: `do()` is called when the vectors of that collection are searched."""

    def when_asked(name, do):
        search = LocalProvider.planned_search

        def planned_search(self, collection, *args, **options):
            if collection == name:
                do()
            return search(self, collection, *args, **options)

        monkeypatch.setattr(LocalProvider, "planned_search", planned_search)

    return when_asked


@pytest.fixture
def hanging(while_embedding):
    """`hanging(model)`: the model embeds nothing from now on, until the test is over."""
    over = threading.Event()
    yield lambda model: while_embedding(model, lambda: over.wait(PATIENCE_SECONDS))
    over.set()


def _search(engine, query, *collections, **asked):
    return engine.search(SearchRequest(query, collections=collections, **{"oracles": ("semantic",), **asked}))


@pytest.mark.parametrize(("slow", "other"), [(NARROW, BOOKS), (USUAL, SHELF)])
def test_collections_are_asked_while_the_connection_of_others_is_slow(
    make, shelf, while_embedding, when_asked, slow, other
):
    asked, waited = threading.Event(), []
    when_asked(other, asked.set)
    while_embedding(slow, lambda: waited.append(asked.wait(PATIENCE_SECONDS)))
    answer = _search(make(limit_seconds=2 * PATIENCE_SECONDS), f"eagle by the slow {slow}", BOOKS, shelf)
    assert waited == [True]
    assert {each.collection for each in answer.results} == {BOOKS, SHELF}


@pytest.mark.parametrize(
    ("slow", "connection", "late", "other"), [(NARROW, "narrow", SHELF, BOOKS), (USUAL, "default", BOOKS, SHELF)]
)
def test_the_collections_of_a_connection_that_hangs_are_named_when_the_time_is_over(
    corpus, embeddings, shelf, hanging, when_asked, monkeypatch, slow, connection, late, other
):
    hanging(slow)
    clock = SimpleNamespace(now=0.0)
    for module in (base, semantic, queries):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    when_asked(other, lambda: setattr(clock, "now", 2000.0))
    opened = corpus.open()
    question = Question(f"a camel that hangs {slow}", opened, opened.named([BOOKS, shelf]), until=1000.0)
    answer = SemanticOracle(embeddings).query(question, 50)
    assert {each.collection for each in answer.results} == {other}
    assert answer.left_out == {late: f"Connection '{connection}' has not embedded the question in time"}


def test_a_connection_that_hangs_says_so_to_each_who_has_no_time_left(embeddings, shelf, corpus, hanging):
    hanging(NARROW)
    asked = SemanticOracle(embeddings).asked("another camel that hangs")
    [books, narrow] = corpus.open().named([BOOKS, shelf])
    assert asked.of(books).model == USUAL
    assert list(asked.as_embedded([narrow, books], time.monotonic())) == [books, narrow]
    with queries.deadlines.within(0), pytest.raises(UnavailableError, match="Connection 'narrow' has not embedded"):
        asked.of(narrow)
    assert asked.made_of(narrow) is None


def test_collections_of_connections_that_are_gone_wait_for_the_usual_one():
    asked, made = [], object()

    def make(connection):
        asked.append(connection)
        if connection != "usual":
            raise ConnectionNotFoundError(connection)
        return made

    infos = [CollectionInfo(name, 1, {"embedding_connection": name}, "cosine", 2) for name in ("gone", "lost", "usual")]
    threads = ConnectionThreads("question")
    for of_it in (infos, infos[:2]):
        asked.clear()
        embeddings = AskedEmbeddings(make, "usual", threads)
        assert sorted(each.name for each in embeddings.as_embedded(of_it)) == [each.name for each in of_it]
        assert all(embeddings.of(each) is made for each in of_it)
        assert sorted(asked) == ["gone", "lost", "usual"]
    threads.close()


def test_a_lonely_connection_is_asked_without_another_thread(make, shelf, monkeypatch):
    def submit(self, key, work):
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr(ConnectionThreads, "submit", submit)
    for names in ((BOOKS,), (shelf,)):
        answer = _search(make(), "a lonely eagle", *names, min_relevance=0.1)
        assert answer.receipt.oracles["semantic"].left_out == {}


@pytest.fixture(params=["same dimension", "another dimension"])
def switched(request, app, shelve, while_embedding):
    """The name of a collection that is given another model while its own embeds a question."""
    store, letters = app.extensions["rag.service"].store, LetterEmbedding(NARROW, dimension=13)
    name = shelve(f"meanwhile-switched-{next(NUMBERS)}", {"beaver": "beaver"}, letters=letters, **ON_NARROW)
    new = {**ON_NARROW, "embedding_model": "letters-new", "embedding_connection": "new"}
    switches = []

    def switch():
        switches.append(name)
        if request.param == "same dimension":
            store.change_collection_metadata(name, new, AS_IT_COMES, merge=True)
        else:
            store.delete_collection(name)
            store.create_collection(name, new, "cosine")
            vectors = LetterEmbedding("letters-new", dimension=15)._embed(["beaver"])
            store.add_documents(name, DocumentBatch(["beaver"], ["beaver"], [{}], vectors))

    while_embedding(NARROW, switch)
    yield name
    assert switches == [name]


def test_a_collection_that_was_given_another_model_meanwhile_is_left_out(make, switched):
    answer = _search(make(), f"a beaver in {switched}", BOOKS, switched)
    assert {each.collection for each in answer.results} == {BOOKS}
    left_out = answer.receipt.oracles["semantic"].left_out
    assert left_out == answer.receipt.collections.left_out == {switched: TOLD.format(switched)}


def test_a_question_of_another_model_by_now_is_refused_where_nothing_else_is_asked(make, switched):
    with pytest.raises(EmbeddingMismatchError) as raised:
        _search(make(), f"a lonely beaver in {switched}", switched)
    assert (raised.value.message, raised.value.code) == (TOLD.format(switched), "embedding_mismatch")


def test_texts_of_another_model_by_now_are_not_found(connections, choice_of, embeddings, switched):
    texts = TextCollections(connections, choice_of(), SemanticOracle(embeddings), limit_seconds=PATIENCE_SECONDS)
    with pytest.raises(EmbeddingMismatchError):
        texts.nearest(f"a text on beavers in {switched}", texts.searched([switched]), EVERYTHING, 5)


def test_what_words_find_has_no_relevance_by_another_model(make, switched):
    [found] = _search(make(), f"beaver {switched}", switched, oracles=("lexical",), min_relevance=0.01).results
    assert (found.doc_id, found.relevance) == ("beaver", None)


def test_a_collector_leaves_out_what_was_given_another_model_meanwhile(
    connections, embeddings, switched, while_embedding, monkeypatch
):
    looked = threading.Event()
    look = LocalProvider.collection

    def collection(self, name):
        found = look(self, name)
        looked.set()
        return found

    monkeypatch.setattr(LocalProvider, "collection", collection)
    while_embedding(NARROW, lambda: looked.wait(PATIENCE_SECONDS))
    collector = Collector(connections, embeddings, thresholds=Thresholds(0.9, 1.0), limit_seconds=PATIENCE_SECONDS)
    selected = SelectedCollection("local", switched, "narrow")
    [receipt] = collector.collect(CollectRequest(f"collect {switched}", "", "", (selected,))).receipt.collections
    collector.close()
    assert (receipt.status, receipt.error) == ("failed", TOLD.format(switched))
