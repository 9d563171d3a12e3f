"""Hosts and origins are compared by their meaning, not by their spelling; names of collections are as questions name them."""

import pytest

from schemas.errors import InvalidInputError
from schemas.host_patterns import Authority, HostPattern, OriginPattern
from schemas.names import are_within, asked_collections, check_collection_name, matches_pattern

CONSOLE = "https://console.example"
BELOW = "https://*.corp.example"


MEANT = [
    (CONSOLE, CONSOLE),
    (CONSOLE, "https://console.example:443"),
    ("https://CONSOLE.example:443", CONSOLE),
    ("http://[::1]:3000", "http://[0:0::1]:3000"),
    (BELOW, "https://a.b.corp.example"),
    ("https://*.corp.example:8443", "https://a.corp.example:8443"),
    ("chrome-extension://abcdefgh", "chrome-extension://abcdefgh"),
]
NOT_MEANT = [
    (CONSOLE, "http://console.example"),
    (CONSOLE, "https://console.example.evil.com"),
    (CONSOLE, "https://consoleXexample"),
    (CONSOLE, "https://evil.com/https://console.example"),
    (CONSOLE, "null"),
    (BELOW, "https://corp.example"),
    (BELOW, "https://xcorp.example"),
    (BELOW, "https://a.corp.example.evil.com"),
    (BELOW, "https://*.corp.example"),
    (BELOW, "https://evil.com#.corp.example"),
    (BELOW, "https://evil.com\n.corp.example"),
    (BELOW, "https://a.corp.example\n"),
]


@pytest.mark.parametrize(("pattern", "origin"), [*MEANT, *NOT_MEANT])
def test_an_origin_is_meant_or_not(pattern, origin):
    parsed, is_meant = OriginPattern.parse(pattern), (pattern, origin) in MEANT
    assert parsed.matches(origin) is is_meant
    if not is_meant or (origin == origin.lower() and ":443" not in origin and "0:0" not in origin):
        assert bool(parsed.regular_expression().match(origin)) is is_meant


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "console.example",
        "https://",
        "https://console.example/app",
        "https://.*.corp.example",
        "https://*corp.example",
        r"https://.+\.corp\.example",
        "https://a.example:port",
        "https://a.example:70000",
        "https://user@a.example",
        "https://*.10.0.0.7",
    ],
)
def test_an_invalid_origin_is_refused(text):
    with pytest.raises(ValueError, match="no "):
        OriginPattern.parse(text)


def test_a_host_with_and_without_a_port():
    anywhere, there = HostPattern.parse("rag.example"), HostPattern.parse("rag.example:8443")
    assert anywhere.matches(Authority.parse("RAG.example.:5006"))
    assert there.matches(Authority.parse("rag.example:8443"))
    assert not there.matches(Authority.parse("rag.example"), 80)
    assert HostPattern.parse("rag.example:80").matches(Authority.parse("rag.example"), 80)
    assert HostPattern.parse("*.rag.example").matches(Authority.parse("a.rag.example"))


@pytest.mark.parametrize(
    "text", ["", "a b", "a,b", "localhost@evil.com", "[::1", "::1", "[evil]", "a:b", "a/b", "é.de"]
)
def test_an_invalid_host_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - ipaddress raises it too, with other words
        Authority.parse(text)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, None),
        ({"collections": None, "collection": None}, None),
        ({"collections": ["docs", "wiki-*", "*"]}, ("docs", "wiki-*", "*")),
        ({"collections": ("docs",)}, ("docs",)),
        ({"collection": "docs"}, ("docs",)),
        ({"collection": ("docs", "wiki-*")}, ("docs", "wiki-*")),
    ],
)
def test_collections_and_the_older_collection_say_the_same(given, asked):
    assert asked_collections(given) == asked


@pytest.mark.parametrize(
    ("given", "code", "details"),
    [
        ({"collections": ["docs"], "collection": "docs"}, "invalid_field", {"field": "collections"}),
        ({"collections": []}, "invalid_field", {"field": "collections"}),
        ({"collections": ["docs"] * 101}, "invalid_field", {"field": "collections"}),
        ({"collections": ["docs", "a*b"]}, "invalid_name", {"field": "collections", "index": 1}),
        ({"collections": ["docs", "**"]}, "invalid_name", {"field": "collections", "index": 1}),
        ({"collections": ["../etc*"]}, "invalid_name", {"field": "collections", "index": 0}),
        ({"collections": ["docs\n*"]}, "invalid_name", {"field": "collections", "index": 0}),
        ({"collection": "x"}, "invalid_name", {"field": "collection", "index": 0}),
    ],
)
def test_a_wrong_name_is_refused_by_field_and_position(given, code, details):
    with pytest.raises(InvalidInputError) as raised:
        asked_collections(given)
    assert (raised.value.code, raised.value.details) == (code, details)


def test_a_pattern_is_the_beginning_of_names():
    found = [name for name in ("docs-1", "docs-", "docs", "my-docs-1") if matches_pattern(name, "docs-*")]
    assert found == ["docs-1", "docs-"]
    assert matches_pattern("anything", "*")
    assert not matches_pattern("docs-1", "docs")


@pytest.mark.parametrize(
    ("names", "patterns", "within"),
    [
        ((), (), True),
        (("a",), (), False),
        (("a", "b-*"), ("b-*", "a"), True),
        (("a-1", "a-b-*"), ("a-*",), True),
        (("a-*",), ("a-b-*",), False),
        (("a-*",), ("a-", "a-1"), False),
        (("a", "a-*"), ("*",), True),
        (("*",), ("a*", "b"), False),
    ],
)
def test_what_names_stand_for_is_within_patterns_that_stand_for_all_of_it(names, patterns, within):
    assert are_within(names, patterns) is within


@pytest.mark.parametrize(
    "name", [None, "", 7, "ab", "a" * 513, "_ab", "ab_", "a..b", "a b", "abc\n", "äbc", "1.2.3.4", "a/b"]
)
def test_bad_names(name):
    with pytest.raises(InvalidInputError) as caught:
        check_collection_name(name)
    assert (caught.value.code, caught.value.details) == ("invalid_name", {"field": "name"})
