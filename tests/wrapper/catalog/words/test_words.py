"""The words of texts and of questions: folded alike, identifiers whole and in parts, never too many."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wrapper.catalog.words.splitting import (
    MAX_QUERY_TERMS,
    MAX_WORDS_IN_PHRASES,
    heading_of,
    identifier_words,
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
    ("metadata", "heading"),
    [
        ({"title": "Backups", "section": "Restore"}, "Backups\nRestore"),
        ({"title": "Backups", "section": "Backups > Restore"}, "Backups > Restore"),
        ({"title": 7, "section": ["Restore"]}, ""),
    ],
)
def test_a_heading_is_title_and_section(metadata, heading):
    assert heading_of(metadata) == heading


@pytest.mark.parametrize(
    ("metadata", "tags"),
    [({"tags": ["a b", "c"]}, "a b\nc"), ({"tags": ["a", 7, None]}, "a"), ({"tags": "a"}, ""), ({}, "")],
)
def test_tags_are_a_list_of_strings(metadata, tags):
    assert tags_of(metadata) == tags


@given(NOISE)
def test_the_shadow_is_made_of_the_text(text):
    letters = set(text)
    assert set(identifier_words(text)) <= letters | {" "}


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
    ],
)
def test_words_said_twice_count_twice(query, times):
    assert query_terms(query) == times
