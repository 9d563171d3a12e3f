"""German compounds of a question are known by their parts, where the documents do not have them whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create, ids_found
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

    for name, texts in (("de", TEXTS), ("en", ENGLISH)):
        create(catalog, name, metadata={"language": name})
        add(catalog, name, texts, texts.values())
    return lambda query, name="de": ids_found(catalog, name, query)


KNOWN_BY = {
    "Büroschlüssel": {"key", "office"},
    "meine Büroschlüssel?": {"key", "office"},
    "Urlaubstage": {"leave", "day"},
    "Ersatzschlüssel": {"key"},
    "Schlüsselbund": {"key"},
    "Hausschlüssel": {"house"},
    "Überschrift": set(),
    "Unterlagen": set(),
    "Donaudampfschiff": set(),
}


def test_a_word_that_no_document_has_is_known_by_its_parts(ask):
    """A word that one has stands for itself, and parts that are stop words say nothing."""
    for query, ids in KNOWN_BY.items():
        for _ in range(4):  # read from the tables, then from memory
            assert set(ask(query)) == ids, query
    assert ask("Büroschlüssel Schlüssel")[0] == "key"
    assert ask('"Büroschlüssel Schlüssel"') == ask("Büroschlüssel Schlüssel")


@SQLITE
def test_english_words_stay_whole_and_a_long_word_is_not_a_costly_question(ask):
    assert ask("houseboat", "en") == []
    assert ask("house boat", "en") != []
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
