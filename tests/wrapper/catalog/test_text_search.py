"""Text search means the same on both databases: any word may match, whole identifiers come before their parts."""

from itertools import count
from types import MappingProxyType

import pytest
from hypothesis import example, given, settings

from schemas.where import EVERYTHING, parse_where
from tests.wrapper import documents
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.catalog.words.test_words import NOISE, SYNTAX
from tests.wrapper.documents import add, create, numbered
from wrapper.catalog.words.splitting import query_terms

PROSE = [
    "the zebra",
    "what will not be will be",
    "to be or not to be",
    "call std::is there",
    "a.b",
    "isEmpty()",
    *["filler text"] * 20,
]


@pytest.fixture
def search(catalog):
    """`search(texts, query)`: the numbers of the texts found in a collection of their own, best first.

    `titles` and `tags` map numbers of texts to theirs.
    """
    numbers = count()

    def search_in(texts, query, where=EVERYTHING, *, titles=MappingProxyType({}), tags=MappingProxyType({})):
        name = f"texts-{next(numbers)}"
        create(catalog, name)
        metadatas = [
            {"number": number, "title": titles.get(number), "tags": tags.get(number)} for number in range(len(texts))
        ]
        add(catalog, name, numbered(len(texts), ""), texts, metadatas)
        found, total = documents.search(catalog, name, query, where)
        assert total == len(found)
        scores = [match.score for match in found]
        assert scores == sorted(scores, reverse=True)
        return [int(match.document.id) for match in found]

    return search_in


IDENTIFIERS = {
    "call getUserName now": ["getUserName", "getusername", "user", "name", "get", "userName", "get user name"],
    "a snake_case_name too": ["snake_case_name", "snake", "case", "name", "snake_case", "snakecasename"],
    "an HTTPServer starts": ["HTTPServer", "httpserver", "http", "server", "HTTP server"],
    "parseHTML5Document()": ["parse", "html", "document", "parseHTML5Document"],
    "see wrapper/catalog/words/splitting.py": ["words.py", "catalog", "wrapper/catalog", "py"],
    "Größe der Straße": ["größe", "GRÖßE", "große", "straße"],
    "__init__ and _private": ["init", "__init__", "private", "_private"],
    "running tests": ["run", "test"],
}


@SQLITE
def test_identifiers_are_found_whole_and_in_parts(search):
    for text, queries in IDENTIFIERS.items():
        for query in queries:
            assert search(["nothing to see", text], query) == [1], query


@pytest.mark.parametrize("whole", ["getUserName", "snake_case_name", "std::env", "HTTPServer", "a.b.c"])
@SQLITE
def test_a_whole_identifier_outranks_its_parts(search, whole):
    scattered = " and ".join(" ".join(query_terms(whole)).split()[::-1])
    parts_only = scattered.replace(whole.lower(), "").replace(whole.replace("_", ""), "")
    texts = [f"{parts_only} filler words", f"with {whole} filler words"]
    assert search(texts, whole)[0] == 1


def test_what_counts_more_comes_first_and_equals_in_the_order_of_insertion(search):
    """Words that were said twice, and rare ones; and a filter holds."""
    texts = ["one apple here", "one pear here", "nothing"]
    assert search(texts, "apple apple pear")[0] == 0
    assert search(texts, "apple pear pear")[0] == 1
    assert search(texts, "apples apple pear")[0] == 0
    texts = ["common rare"[: 6 if number else None] + " filler text" for number in range(20)]
    assert search([*texts, "common common common"], "common rare")[0] == 0
    assert search(["same words here"] * 5, "words") == [0, 1, 2, 3, 4]
    assert search(["word"] * 5, "word", parse_where({"number": {"$gte": 3}})) == [3, 4]


@settings(max_examples=40)
@example('"')
@example("a AND")
@example("!a & | <-> ' \\")
@example("ª² ⅷ ﬁ İ ß ǆ")
@given(NOISE | SYNTAX)
def test_no_text_is_a_syntax_error_and_none_finds_everything(search, text):
    assert 1 not in search([text, "zqx"], text)


@pytest.mark.parametrize(
    ("query", "found"),
    [("what is the zebra", [0]), ("to be or not to be", [2, 1]), ("std::is", [3]), ("a.b", [4]), ("it", [])],
)
@SQLITE
def test_stop_words_count_in_phrases_and_where_nothing_else_is_left(search, query, found):
    assert search(PROSE, query) == found
    assert set(search(PROSE, 'zebra "to be or"')) == {0, 2}


def test_a_word_in_the_title_counts_more_than_one_in_the_text_and_one_in_the_tags_less(search):
    texts = ["zebra among other words", "a horse among other words"] + ["nothing to see here"] * 8
    assert search(texts, "zebra", titles={0: "On a horse", 1: "On the zebra"}) == [1, 0]
    texts = ["a horse among other words", "zebra among other words"] + ["nothing to see here"] * 8
    assert search(texts, "zebra", tags={0: ["zebra", "getUserName"], 1: ["horse", "other one"]}) == [1, 0]
    assert search(texts, "horse", tags={0: ["zebra", "getUserName"], 1: ["horse", "other one"]}) == [0, 1]
    assert search(texts, "getusername", tags={0: ["zebra", "getUserName"]}) == [0]


@pytest.mark.slow
def test_a_very_long_title_or_text_is_found_by_its_last_word(search):
    title = " ".join(f"word{number}" for number in range(2_500))
    assert search(["short", "other"], "word2499", titles={0: title}) == [0]
    long = " ".join(f"word{number % 5_000}x{number}" for number in range(60_000))
    assert search([long + " lastword " + "y" * 3_000, "other"], "lastword") == [0]
    assert search([long + "y" * 3_000, "other"], "word1x1") == [0]
    assert search(["y" * 3_000, "y" * 2_999], "y" * 3_000) == [0]
