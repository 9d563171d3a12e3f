"""The words of texts and of questions: folded alike, identifiers whole and in parts, never too many; German compounds of a
question are known by their parts, where the documents do not have them whole."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.words.shadows import identifier_words
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create, ids_found
from wrapper.catalog.words.compounds import LONGEST_WORD, MOST_SPLITS, SHORTEST_PART, parts_of, splits_of
from wrapper.catalog.words.splitting import (
    MAX_QUERY_TERMS,
    MAX_WORDS_IN_PHRASES,
    heading_of,
    query_terms,
    tags_of,
)

NOISE = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
OPERATORS = ["AND", "OR", "NOT", "NEAR(", "text:", "{a b}:", "a", "b"]
SYNTAX = st.lists(st.sampled_from([*"\"'()*^:+-\0,", *OPERATORS]), max_size=12).map(" ".join)


@example('"')
@example("text:(x")
@example("\x00")
@example("a" * 5_000)
@example(" ".join(f"w{number}" for number in range(2_000)))
@given(NOISE | SYNTAX)
def test_whatever_is_asked_is_a_bounded_number_of_words(text):
    assert len(query_terms(text)) <= MAX_QUERY_TERMS


@pytest.mark.parametrize(
    ("text", "shadow"),
    [
        *((text, "") for text in ("plain words only", "", "ALL CAPS", "x", "2024-01-05", "日本語")),
        ("getUserName", "get User Name"),
        ("snake_case", "snakecase"),
        ("parse_HTMLPage", "HTML Page parseHTMLPage"),
        ("utf8Decode", "utf 8 Decode"),
        ("__dunder__", ""),
        ("éclairBleu x", "éclair Bleu"),
    ],
)
def test_identifiers_have_a_shadow_and_ordinary_prose_needs_none(text, shadow):
    assert identifier_words(text) == shadow


@pytest.mark.parametrize(
    ("metadata", "heading", "tags"),
    [
        ({"title": "Backups", "section": "Restore", "tags": ["a b", "c"]}, "Backups\nRestore", "a b\nc"),
        ({"title": "Backups", "section": "Backups > Restore", "tags": ["a", 7, None]}, "Backups > Restore", "a"),
        ({"title": 7, "section": ["Restore"], "tags": "a"}, "", ""),
        ({}, "", ""),
    ],
)
def test_a_heading_is_title_and_section_and_tags_are_a_list_of_strings(metadata, heading, tags):
    assert (heading_of(metadata), tags_of(metadata)) == (heading, tags)


def test_phrases_have_a_bounded_number_of_words_together():
    query = " ".join('"' + " ".join(f"w{phrase}x{word}" for word in range(60)) + '"' for phrase in range(20))
    assert sum(term.count(" ") + 1 for term in query_terms(query) if " " in term) <= MAX_WORDS_IN_PHRASES


@pytest.mark.parametrize(
    ("query", "times"),
    [
        ("Flow FLOW flows", {"flow": 2, "flows": 1}),
        ("x.y and x.y", {"x y": 2, "xy": 2, "x": 2, "y": 2}),
        ('"big end" of the big end', {"big end": 1, "big": 2, "end": 2}),
        ('"x y"', {"x y": 1, "x": 1, "y": 1}),
        ("getUser user", {"getuser": 1, "get": 1, "user": 2}),
        ("1,250,000 dollars", {"1250000": 1, "dollars": 1, "1 250 000": 1}),
        ("1 250 pages", {"1": 1, "250": 1, "pages": 1, "1250": 1, "1 250": 1}),
        ("1,5 or 1.5", {"1 5": 2, "1": 2, "5": 2, "15": 1}),
        ("A* and a C#", {"=a*": 1, "=c#": 1, "c": 1}),
    ],
)
def test_words_said_twice_count_twice(query, times):
    assert query_terms(query) == times


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
def test_signs_and_separators_tell_names_and_numbers_and_older_segments_are_found_without(catalog, monkeypatch):
    create(catalog, "new")
    texts = {"sharp": "Written in C#, #define it", "plain": "The C language, define it", "sum": "1,250,000 dollars"}
    add(catalog, "new", texts, texts.values())
    assert ids_found(catalog, "new", "C#") == ids_found(catalog, "new", "#define") == ["sharp", "plain"]
    assert ids_found(catalog, "new", "1250000") == ids_found(catalog, "new", "1.250.000") == ["sum"]
    assert ids_found(catalog, "new", "1250") == ids_found(catalog, "new", "1250001") == []
    monkeypatch.setattr("wrapper.catalog.words.index.joined_and_signed", lambda text: set())
    create(catalog, "old")
    add(catalog, "old", texts, texts.values())
    assert set(ids_found(catalog, "old", "C#")) == {"sharp", "plain"}
    assert ids_found(catalog, "old", "1,250,000") == ["sum"]


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
