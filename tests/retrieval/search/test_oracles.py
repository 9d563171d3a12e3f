"""The three oracles over the storage of this process."""

import numpy as np
import pytest

from retrieval.search.corpus import Corpus
from retrieval.search.oracles.base import Question
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import PersonaOracle, SemanticOracle
from schemas.connections import Connection
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING, parse_where

BOOKS, PAPERS, NOTES = "oracle-books", "oracle-papers", "oracle-notes"


@pytest.fixture(scope="module", autouse=True)
def library(shelve):
    shelve(
        BOOKS,
        {
            "zoo": ("zzzzzzzz zebra", {"lang": "en"}),
            "jam": ("jjjjjjjj jam", {"lang": "de", "document_id": "kitchen"}),
            "code": ("call std::env and getUserName in a.b.c", {"lang": "en"}),
        },
    )
    shelve(PAPERS, {"zen": "zzzz zen zebra", "war": "Before the war, the tea OR coffee"}, metric="l2")
    shelve(
        NOTES,
        {
            "old": ("zebras are horses", {"superseded_by": "new"}),
            "new": ("zebras are zebras", {}),
            "other": ("jam is sweet", {"topic": "food"}),
        },
    )


@pytest.fixture
def semantic(embeddings):
    return SemanticOracle(embeddings)


@pytest.fixture
def persona(embeddings):
    return PersonaOracle(embeddings, NOTES)


@pytest.fixture
def ask(corpus):
    def ask(oracle, text, *names, limit=10, where=EVERYTHING):
        opened = corpus.open()
        return oracle.query(Question(text, opened, tuple(opened.existing(names)), where), limit)

    return ask


def ids(answer):
    return [each.chunk_id for each in answer.results]


def test_semantic_finds_the_nearest_and_says_which_document_a_chunk_is_of(ask, semantic):
    answer = ask(semantic, "zzzzzzzz", BOOKS, limit=2)
    assert ids(answer)[0] == "zoo"
    assert len(answer.results) == 2
    [found] = ask(semantic, "jam", BOOKS, where=parse_where({"lang": "de"})).results
    assert (found.doc_id, found.chunk_id, found.collection) == ("kitchen", "jam", BOOKS)
    assert found.metadata == {"lang": "de", "document_id": "kitchen"}
    assert found.content == "jjjjjjjj jam"


def test_several_collections_are_one_list_by_score(ask, semantic):
    found = ask(semantic, "zzzzzzzz zebra", BOOKS, PAPERS, limit=4).results
    assert found[0].chunk_id == "zoo"
    assert {each.collection for each in found} == {BOOKS, PAPERS}
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert all(0.0 <= each.score <= 1.0 for each in found)


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_a_score_is_the_cosine_whatever_the_metric_and_the_length_of_vectors(
    app, ask, semantic, embeddings, shelve, metric
):
    question = embeddings.embed("default", "zebra").vector
    far = embeddings.embed("default", "quick fox").vector
    near = embeddings.embed("default", "zebra zoo").vector
    name = shelve(f"oracle-metric-{metric}", {}, metric=metric)
    vectors = {"near": near * 0.01, "far": far * 50, "opposite": -question}
    if metric != "cosine":
        vectors["nothing"] = np.zeros_like(near)
    batch = DocumentBatch([*vectors], [*vectors], [{}] * len(vectors), np.stack([*vectors.values()]).astype("<f4"))
    app.extensions["rag.service"].store.add_documents(name, batch)
    results = ask(semantic, "zebra", name).results
    found = {each.chunk_id: each.score for each in results}
    cosines = {each.chunk_id: each.cosine for each in results}

    def cosine(vector):
        return question @ vector / ((question @ question) * (vector @ vector)) ** 0.5

    assert found["near"] == pytest.approx(cosine(near), abs=1e-5)
    assert found["far"] == pytest.approx(cosine(far), abs=1e-5)
    assert found.get("nothing", 0.0) == 0.0
    assert (found["opposite"], cosines["opposite"]) == (0.0, pytest.approx(-1.0, abs=1e-5))
    assert cosines["near"] == pytest.approx(found["near"])


def test_a_collection_that_is_missing_or_goes_away_meanwhile_holds_nothing(ask, corpus, semantic, app):
    assert corpus.open().existing(["there-is-none"]) == []
    assert ids(ask(semantic, "zebra", "there-is-none")) == ids(ask(LexicalOracle(), "zebra", "there-is-none")) == []
    store = app.extensions["rag.service"].store
    store.create_collection("oracle-gone", {}, "cosine")
    opened = corpus.open()
    question = Question("zebra", opened, tuple(opened.existing(["oracle-gone", PAPERS])))
    store.delete_collection("oracle-gone")
    assert ids(LexicalOracle().query(question, 5)) == ["zen"]


def test_lexical_finds_words_best_first_and_obeys_the_filter(ask):
    assert ids(ask(LexicalOracle(), "zebra zen tea", PAPERS)) == ["zen", "war"]
    assert ids(ask(LexicalOracle(), "zebra", BOOKS, where=parse_where({"lang": "de"}))) == []
    assert all(0.0 <= each.score < 1.0 for each in ask(LexicalOracle(), "zebra jam coffee", BOOKS, PAPERS).results)


@pytest.fixture(scope="module")
def topics(shelve):
    """A few documents on one topic, in which its words are common, and many documents on others."""
    few = {f"few-{n}": f"A zebra crossing has {colour} stripes" for n, colour in enumerate(["white", "wide", "worn"])}
    many = {f"many-{n}": f"Note {n} on bread and butter" for n in range(40)}
    many |= {"many-zebra": "A zebra in the zoo", "many-stripes": "Stripes of a zebra at a crossing of rivers"}
    return shelve("oracle-few", few), shelve("oracle-many", many)


def test_the_words_of_a_small_collection_count_as_much_and_no_more_and_each_keeps_its_own_order(ask, topics):
    assert ids(ask(LexicalOracle(), "white stripes of a zebra crossing", *topics))[0] == "few-0"
    first = ids(ask(LexicalOracle(), "zebra crossing stripes", *topics, limit=4))
    assert set(first) == {"few-0", "few-1", "few-2", "many-stripes"}
    found = ids(ask(LexicalOracle(), "white bread and butter for the note", *topics))
    assert "few-0" in ids(ask(LexicalOracle(), "white bread and butter for the note", *topics, limit=100))
    assert "few-0" not in found[:5]
    alone = ids(ask(LexicalOracle(), "zebra stripes note", topics[1]))
    together = ask(LexicalOracle(), "zebra stripes note", *topics, limit=100).results
    assert [each.chunk_id for each in together if each.collection == topics[1]][: len(alone)] == alone
    assert all(0.0 <= each.score < 1.0 for each in together)


def test_persona_asks_its_notes_and_never_those_that_were_replaced(ask, persona):
    assert ids(ask(persona, "zebras are horses", limit=1)) != ["old"]
    assert set(ids(ask(persona, "zebras are horses"))) == {"new", "other"}
    assert ids(ask(persona, "zebras", where=parse_where({"topic": "food"}))) == ["other"]
    assert ids(ask(persona, "zebras", where=parse_where({"superseded_by": "new"}))) == []
    assert {each.collection for each in ask(persona, "zebras", BOOKS).results} == {NOTES}


def test_an_oracle_is_available_where_the_storage_can_do_what_it_needs_and_the_persona_where_there_are_notes(
    corpus, connections, semantic, embeddings, shelve, persona
):
    assert semantic.is_available(corpus.open())
    assert LexicalOracle().is_available(corpus.open())
    connections.create(Connection("plain", "rag", "chromadb", {"url": "http://127.0.0.1:9"}))
    try:
        assert not LexicalOracle().is_available(Corpus(connections, "plain").open())
    finally:
        connections.delete("plain")
    opened = corpus.open()
    assert persona.is_available(opened)
    assert not PersonaOracle(embeddings, "there-is-none").is_available(opened)
    assert not PersonaOracle(embeddings, shelve("oracle-no-notes", {})).is_available(opened)
