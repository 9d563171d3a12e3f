"""German compounds of a question are known by their parts, where the documents do not have them whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from wrapper.catalog import writes
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.text_search import text_search
from wrapper.catalog.words.compounds import LONGEST_WORD, MOST_SPLITS, SHORTEST_PART, parts_of, splits_of

TEXTS = {
    "key": "Der Verlust eines Schlüssels ist zu melden.",
    "office": "Das Büro ist ab acht Uhr offen.",
    "leave": "Resturlaub verfällt im März; Urlaub wird im Portal beantragt.",
    "day": "Am ersten Tag kommt die Post.",
    "house": "Der Hausschlüssel liegt beim Empfang.",
    "about": "Über die Heizung spricht niemand, unter dem Dach ist es warm.",
}
ENGLISH = {"house": "The house is white.", "boat": "A boat is on the lake."}


@pytest.fixture
def ask(catalog):
    """`ask(query, collection="de")`: the ids of the documents found, best first."""

    def fill(transaction):
        for name, texts in (("de", TEXTS), ("en", ENGLISH)):
            collection_writes.create_collection(transaction, name, {"language": name}, "cosine")
            vectors = np.ones((len(texts), 1), dtype="<f4")
            batch = DocumentBatch(list(texts), list(texts.values()), [{} for _ in texts], vectors)
            writes.add_documents(transaction, name, batch)

    catalog.commit(fill)

    def found(query, name="de"):
        with catalog.read() as transaction:
            matches, _ = text_search(
                transaction, find_collection(transaction, name), query, EVERYTHING, HeldDocuments(), limit=10
            )
        return [match.document.id for match in matches]

    return found


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("Büroschlüssel", {"key", "office"}),
        ("meine Büroschlüssel?", {"key", "office"}),
        ("Urlaubstage", {"leave", "day"}),
        ("Ersatzschlüssel", {"key"}),
        ("Schlüsselbund", {"key"}),
        ("Hausschlüssel", {"house"}),
        ("Überschrift", set()),
        ("Unterlagen", set()),
        ("Donaudampfschiff", set()),
    ],
)
def test_a_word_that_no_document_has_is_known_by_its_parts(ask, query, ids):
    """A word that one has stands for itself, and parts that are stop words say nothing."""
    for _ in range(4):  # read from the tables, then from memory
        assert set(ask(query)) == ids


def test_both_parts_count_for_more_than_one(ask):
    assert ask("Büroschlüssel Schlüssel")[0] == "key"
    assert ask('"Büroschlüssel Schlüssel"') == ask("Büroschlüssel Schlüssel")


def test_english_words_stay_whole(ask):
    assert ask("houseboat", "en") == []
    assert ask("house boat", "en") != []


def test_a_long_word_is_not_a_costly_question(ask):
    assert ask("schlüssel" * 500) == []
    assert "key" in ask(" ".join(f"schlüssel{chr(97 + n // 26)}{chr(97 + n % 26)}teil" for n in range(60)))


def test_which_parts_are_asked_for():
    splits = splits_of(["abcdefghij"])["abcdefghij"]
    assert splits == [("abcd", "efghij"), ("abcde", "fghij"), ("abcdef", "ghij")]
    for known, parts in [
        ({"abcd", "efghij", "abcdef", "ghij"}, ("abcdef", "ghij")),
        ({"abcd", "abcde", "fghij"}, ("abcde", "fghij")),
        ({"abcdef", "ghij", "fghij", "abcd"}, ("abcdef", "ghij")),
        ({"ghij", "fghij", "abcd"}, ("fghij",)),
        ({"abcd", "abcde"}, ("abcde",)),
        (set(), ()),
    ]:
        assert parts_of(splits, known.__contains__) == parts


@given(st.lists(st.text(st.sampled_from("abä1-東"), max_size=60), max_size=20))
def test_few_words_are_taken_apart_and_nothing_of_them_is_lost(words):
    found = splits_of(words)
    assert sum(map(len, found.values())) <= MOST_SPLITS
    for word, splits in found.items():
        assert len(word) <= LONGEST_WORD
        for split in splits:
            assert "".join(split) == word
            assert min(map(len, split)) >= SHORTEST_PART
