"""The text index: no text is a syntax error, identifiers are found whole and in parts."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wrapper.catalog.words import MAX_QUERY_TERMS, heading_of, identifier_words, match_expression, tags_of

TABLE = (
    "CREATE VIRTUAL TABLE words USING fts5"
    "(heading, text, tags, identifiers, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
)
NOISE = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
SYNTAX = st.lists(
    st.sampled_from(
        [
            '"',
            "'",
            "(",
            ")",
            "*",
            "^",
            ":",
            "+",
            "-",
            "AND",
            "OR",
            "NOT",
            "NEAR(",
            "text:",
            "{a b}:",
            "\x00",
            ",",
            "a",
            "b",
        ]
    ),
    max_size=12,
).map(" ".join)


@pytest.fixture(scope="module")
def words():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        yield connection


def _holding(connection, texts):
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    connection.executemany(
        "INSERT INTO words (rowid, heading, text, tags, identifiers) VALUES (?, '', ?, '', ?)",
        [(number, text, identifier_words(text)) for number, text in enumerate(texts)],
    )


def _found(connection, query):
    expression = match_expression(query)
    if expression is None:
        return []
    rows = connection.execute(
        "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words), rowid", (expression,)
    ).fetchall()
    return [number for (number,) in rows]


@example('"')
@example("a AND")
@example("text:(x")
@example("NEAR(a b, 1")
@example("\x00")
@example("ª² ⅷ ﬁ İ ß ǆ")
@example("a" * 5_000)
@example(" ".join(f"w{number}" for number in range(2_000)))
@given(NOISE | SYNTAX)
def test_no_text_is_a_syntax_error(words, text):
    _holding(words, [text, "other"])
    _found(words, text)
    expression = match_expression(text)
    assert expression is None or expression.count(" OR ") < MAX_QUERY_TERMS


@settings(max_examples=200)
@given(st.lists(st.text(st.characters(categories=("L", "Nd")), min_size=1, max_size=8), min_size=1, max_size=6))
def test_a_text_is_found_by_each_of_its_words(words, parts):
    text = " ".join(parts)
    _holding(words, [text])
    for part in parts:
        # Some letters are no letters to the index; what it has no words for, nothing finds.
        if words.execute("SELECT count(*) FROM words WHERE words MATCH ?", (f'"{part}"',)).fetchone() == (1,):
            assert _found(words, part) == [0], part


@pytest.mark.parametrize("text", ["plain words only", "", "ALL CAPS", "x", "2024-01-05", "日本語"])
def test_ordinary_prose_needs_no_shadow(text):
    assert identifier_words(text) == ""


@pytest.mark.parametrize(
    ("text", "shadow"),
    [
        ("getUserName", "get User Name"),
        ("HTTPServer", "HTTP Server"),
        ("snake_case", "snakecase"),
        ("parse_HTMLPage", "HTML Page parseHTMLPage"),
        ("utf8Decode", "utf 8 Decode"),
        ("__dunder__", ""),
        ("éclairBleu x", "éclair Bleu"),
    ],
)
def test_the_shadow_of_an_identifier(text, shadow):
    assert identifier_words(text) == shadow


@pytest.mark.parametrize(
    ("metadata", "heading"),
    [
        ({"title": "Backups"}, "Backups\n"),
        ({"title": "Backups", "section": "Restore"}, "Backups\nRestore"),
        ({"title": "Backups", "section": "Backups > Restore"}, "Backups > Restore"),
        ({"title": 7, "section": ["Restore"]}, ""),
        ({"author": "Backups"}, ""),
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
