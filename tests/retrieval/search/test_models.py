"""A question is embedded by the model of each collection that it is asked of, also when another connection hangs meanwhile or
a collection is given another model."""

import threading
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from providers.local import LocalProvider
from registry.collector import Collector, Thresholds
from registry.embedding import queries
from registry.embedding.queries import EmbeddingMismatchError
from retrieval.search.oracles import base, semantic
from retrieval.search.oracles.base import Question
from retrieval.search.oracles.semantic import SemanticOracle, on_one_scale
from schemas.contracts.collect import CollectRequest, SelectedCollection
from schemas.contracts.search import OracleResult, SearchRequest
from schemas.errors import UnavailableError
from schemas.records import DocumentBatch
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.search.conftest import BOOKS, ids
from tests.support.live import PATIENCE_SECONDS
from wrapper.writing import AS_IT_COMES

USUAL, NARROW = "letters-1", "letters-a-m"
ON_NARROW = {"embedding_provider": "letters", "embedding_model": NARROW, "embedding_connection": "narrow"}
GONE = {**ON_NARROW, "embedding_model": "letters-gone", "embedding_connection": "gone"}


@pytest.fixture(scope="module")
def shelves(library, shelve):
    letters = LetterEmbedding("letters-a-m", dimension=13)
    shelve("models-narrow", {"eagle": "eagle eagle", "deer": "deer deer"}, letters=letters, **ON_NARROW)
    shelve("models-gone", {"camel": "camel camel"}, letters=letters, **GONE)
    shelve("lost-models", {"emu": "emu emu"}, embedding_model=USUAL, embedding_connection="gone")


@pytest.fixture
def search(make, shelves):
    return lambda query, *collections, **how: make(**how).search(
        SearchRequest(query, collections=collections, oracles=("semantic",))
    )


def test_collections_of_two_models_are_searched_together(search):
    for query, nearest in (("eagle", "eagle"), ("hamster", "hamster")):
        answer = search(query, BOOKS, "models-narrow")
        assert answer.receipt.oracles["semantic"].left_out == {}
        assert set(answer.receipt.collections.asked) == {BOOKS, "models-narrow"}
        assert nearest in ids(answer)[:2]
    assert all(each.relevance is not None for each in answer.results)
    # A pattern finds those whose connections are here.
    collections = search("eagle", "models-*").receipt.collections
    assert collections.asked == ("models-narrow",)
    reason = "its embeddings are of 'letters-gone', those of questions of 'letters-1'"
    assert collections.left_out == {"models-gone": reason}
    reason = "Collection 'models-gone' holds embeddings of 'letters-gone', the query's would be of 'letters-1'"
    assert search("camel", BOOKS, "models-gone").receipt.oracles["semantic"].left_out == {"models-gone": reason}
    # A connection that is gone is stood in for by the usual one, where that has the same model.
    assert ids(search("emu", BOOKS, "lost-models", "models-narrow"))[0] == "emu"


@pytest.mark.parametrize("recorded", [["letters-1"], {"of": "letters-1"}, 5, True, ""])
def test_a_recorded_model_that_is_no_name_is_none(make, library, shelve, recorded):
    name = f"odd-{type(recorded).__name__}"
    shelve(name, {"wolf": "wolf wolf", "fox": "fox fox"}, embedding_model=recorded, embedding_connection="")
    search = make().search
    answer = search(SearchRequest("wolf", collections=(name, BOOKS), fusion="smoothed", min_relevance=0.1))
    assert ids(answer)[0] == "wolf"
    assert answer.receipt.oracles["semantic"].left_out == {}
    answer = search(SearchRequest("wolf", collections=("odd-*",)))
    assert "it does not say which model" in answer.receipt.collections.left_out[name]


def test_each_model_embeds_a_question_once_and_one_that_does_not_answer_leaves_out_its_own_collections_only(
    search, make, monkeypatch
):
    asked = []
    embed = LetterEmbedding._embed

    def counted(self, texts):
        asked.extend((self.model, text) for text in texts)
        return embed(self, texts)

    monkeypatch.setattr(LetterEmbedding, "_embed", counted)
    oracles = {"collections": (BOOKS, "models-narrow"), "oracles": ("semantic", "persona")}
    make(fusion="smoothed", min_relevance=0.5).search(SearchRequest("a question of two models", **oracles))
    assert sorted(asked) == [(model, "a question of two models") for model in ("letters-1", "letters-a-m")]

    def failing(self, texts):
        if self.model == "letters-a-m":
            raise UnavailableError("it does not answer")
        return embed(self, texts)

    monkeypatch.setattr(LetterEmbedding, "_embed", failing)
    answer = search("a hamster that one model knows", BOOKS, "models-narrow")
    assert answer.receipt.oracles["semantic"].left_out == {"models-narrow": "it does not answer"}
    assert answer.results


def _result(name, collection, score):
    return OracleResult(name, collection, name, name, score, {})


def test_the_strengths_of_two_models_are_brought_to_the_scale_of_the_first():
    found = [_result("a", "one", 0.9), _result("b", "one", 0.5), _result("c", "two", 0.3), _result("d", "two", 0.1)]
    same = on_one_scale(found, {"one": "m", "two": "m"})
    assert same == found
    scaled = on_one_scale([*found, _result("e", "two", 0.2)], {"one": "m", "two": "n"})
    assert [each.strength for each in scaled] == pytest.approx([0.9, 0.5, 0.9, 0.5, 0.7])
    assert [each.score for each in scaled] == [0.9, 0.5, 0.3, 0.1, 0.2]
    [only] = on_one_scale([found[0], replace(found[2])], {"one": "m", "two": "n"})[1:]
    assert only.strength == 0.9


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
    answer = _search(make(retrieve_seconds=2 * PATIENCE_SECONDS), f"eagle by the slow {slow}", BOOKS, shelf)
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
