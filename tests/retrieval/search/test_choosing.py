"""The choice of collections for a question; the embeddings are those of `letters-1`."""

import pytest

from retrieval.search.corpus import CollectionChoice
from schemas.contracts.search import CollectionsReceipt
from schemas.errors import CollectionNotFoundError
from tests.retrieval.letter_embedding import LetterEmbedding

OWN, DOCS, OTHER, STRANGE, UNSAID, EMPTY, NOTES = (
    f"choice-{name}" for name in ("own", "docs", "docs-2", "strange", "unsaid", "empty", "notes")
)
WIDE = "wide-choice"


@pytest.fixture(scope="module", autouse=True)
def library(shelve):
    shelve(OWN, {"a": "zebra"})
    shelve(DOCS, {"a": "zebra"}, embedding_model="letters-1")
    shelve(OTHER, {"a": "zebra"}, embedding_model="letters-1", embedding_provider="elsewhere")
    shelve(STRANGE, {"a": "zebra"}, embedding_model="words-2")
    shelve(UNSAID, {"a": "zebra"})
    shelve(EMPTY, {}, embedding_model="letters-1")
    shelve(NOTES, {"a": "zebra"}, embedding_model="letters-1")


@pytest.fixture
def choose(choice_of):
    def choose(*names, **options):
        chosen = choice_of(OWN, "choice-none", notes=NOTES, **options).choose(names or ("choice-*",))
        assert tuple(each.name for each in chosen.asked) == chosen.receipt.asked
        return chosen.receipt

    return choose


def test_text_collections_of_the_model_are_asked_and_the_others_named_with_the_reason(choose):
    receipt = choose()
    assert receipt.asked == (OWN, OTHER, DOCS)
    assert receipt.left_out == {
        STRANGE: "its embeddings are of 'words-2', those of questions of 'letters-1'",
        UNSAID: "it does not say which model made its embeddings (embedding_model of its metadata)",
        EMPTY: "it is empty",
        NOTES: "it holds notes of sessions, which the oracle persona asks",
    }
    assert [*receipt.missed, *choose("choice-un*", "choice-em*").missed] == [STRANGE, UNSAID]


def test_a_question_that_names_none_is_asked_of_all_text_collections(choice_of):
    chosen = choice_of(OWN, notes=NOTES, most=10_000).choose()
    assert chosen.receipt.asked[0] == OWN
    assert {DOCS, OTHER} <= set(chosen.receipt.asked)
    assert not {STRANGE, UNSAID, EMPTY, NOTES} & set(chosen.receipt.asked)


def test_what_is_named_is_asked_whatever_it_holds_and_all_that_is_missing_told(choose, choice_of):
    assert choose(STRANGE, NOTES, STRANGE) == CollectionsReceipt((STRANGE, NOTES), {})
    assert choose(STRANGE, "choice-docs*").asked == (STRANGE, OTHER, DOCS)
    with pytest.raises(CollectionNotFoundError):
        choose("choice-docs*", "choice-none")
    receipt = choose("nobody-*", "choice-docs*")
    assert receipt.asked == (OTHER, DOCS)
    assert receipt.left_out == {"nobody-*": "no collection has a name that begins so"}
    with pytest.raises(CollectionNotFoundError, match="'choice-none'") as raised:
        choice_of(OWN).choose(("choice-none", "choice-none*", OWN, "choice-gone", "choice-none"))
    assert raised.value.names == ("choice-none", "choice-gone")


def test_a_limited_number_is_asked_the_newest_first_and_named_and_the_others_counted(choose, choice_of, monkeypatch):
    receipt = choose(most=2)
    assert receipt.asked == (OWN, OTHER)
    assert receipt.left_out[DOCS] == "Only 2 collections are asked at a time; name this one to have it asked"
    assert choose(STRANGE, UNSAID, "choice-*", most=2).asked == (STRANGE, UNSAID)
    monkeypatch.setattr("retrieval.search.corpus.MAX_NAMED", 2)
    receipt = choice_of(OWN, notes=NOTES).choose(("choice-*", "nobody-*")).receipt
    assert list(receipt.left_out) == ["nobody-*", STRANGE]
    assert receipt.unnamed == 3


def test_vectors_of_another_dimension_are_left_out_and_words_searched_while_nothing_embeds(
    shelve, choose, connections, corpus, monkeypatch
):
    letters = connections.open("default", "embedding")
    letters.embed(["known from now on"])
    shelve(WIDE, {"a": "zebra"}, letters=LetterEmbedding(dimension=3), embedding_model="letters-1")
    reason = choose("wide-*").left_out[WIDE]
    assert reason == f"its embeddings have 3 dimensions, those of questions {letters.dimension}"
    monkeypatch.setattr(CollectionChoice, "_embedding", lambda self, connection: None)
    choice = CollectionChoice(corpus, connections, own=(OWN,))
    assert {OWN, DOCS, STRANGE} <= set(choice.choose(("choice-*",)).receipt.asked)
