"""A question is embedded by the model of each collection that it is asked of."""

from dataclasses import replace

import pytest

from registry.embedding.queries import connection_of
from retrieval.search.oracles.semantic import SemanticOracle, on_one_scale
from retrieval.text_collections import TextCollections
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleResult, SearchRequest
from schemas.errors import UnavailableError
from schemas.where import EVERYTHING
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.search.conftest import BOOKS, ids
from tests.support.live import PATIENCE_SECONDS

NARROW = {"embedding_provider": "letters", "embedding_model": "letters-a-m", "embedding_connection": "narrow"}
GONE = {**NARROW, "embedding_model": "letters-gone", "embedding_connection": "gone"}


@pytest.fixture(scope="module")
def shelves(library, shelve):
    letters = LetterEmbedding("letters-a-m", dimension=13)
    shelve("models-narrow", {"eagle": "eagle eagle", "deer": "deer deer"}, letters=letters, **NARROW)
    shelve("models-gone", {"camel": "camel camel"}, letters=letters, **GONE)


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


@pytest.mark.parametrize("recorded", [["letters-1"], {"of": "letters-1"}, 5, True, ""])
def test_a_recorded_model_that_is_no_name_is_none(make, library, shelve, recorded):
    name = f"odd-{type(recorded).__name__}"
    shelve(name, {"wolf": "wolf wolf", "fox": "fox fox"}, embedding_model=recorded)
    search = make().search
    answer = search(SearchRequest("wolf", collections=(name, BOOKS), fusion="smoothed", min_relevance=0.1))
    assert ids(answer)[0] == "wolf"
    assert answer.receipt.oracles["semantic"].left_out == {}
    answer = search(SearchRequest("wolf", collections=("odd-*",)))
    assert "it does not say which model" in answer.receipt.collections.left_out[name]


def test_each_model_embeds_a_question_once_and_one_that_does_not_answer_leaves_out_its_own_collections_only(
    search, monkeypatch
):
    asked = []
    embed = LetterEmbedding._embed

    def counted(self, texts):
        asked.extend((self.model, text) for text in texts)
        return embed(self, texts)

    monkeypatch.setattr(LetterEmbedding, "_embed", counted)
    search("a question of two models", BOOKS, "models-narrow", fusion="smoothed", min_relevance=0.5)
    assert sorted(asked) == [(model, "a question of two models") for model in ("letters-1", "letters-a-m")]

    def failing(self, texts):
        if self.model == "letters-a-m":
            raise UnavailableError("it does not answer")
        return embed(self, texts)

    monkeypatch.setattr(LetterEmbedding, "_embed", failing)
    answer = search("a hamster that one model knows", BOOKS, "models-narrow")
    assert answer.receipt.oracles["semantic"].left_out == {"models-narrow": "it does not answer"}
    assert answer.results


@pytest.mark.parametrize(
    ("metadata", "connection"),
    [({}, "usual"), ({"embedding_connection": "own"}, "own"), ({"embedding_connection": ""}, "usual")],
)
def test_the_connection_of_a_collection_is_in_its_metadata(metadata, connection):
    assert connection_of(CollectionInfo("c", 1, metadata, "cosine", 2), "usual") == connection


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


def test_documents_are_embedded_and_found_by_the_model_of_their_collection(connections, choice_of, embeddings, shelves):
    texts = TextCollections(connections, choice_of(), SemanticOracle(embeddings), limit_seconds=PATIENCE_SECONDS)
    assert texts.embedding("models-narrow").model == "letters-a-m"
    assert texts.embedding(BOOKS).model == texts.embedding("there-is-none").model == "letters-1"
    answer = texts.nearest("deer", texts.searched([BOOKS, "models-narrow"]), EVERYTHING, 20)
    assert {each.collection for each in answer.results} == {BOOKS, "models-narrow"}
    assert all(each.relevance is not None for each in answer.results)
