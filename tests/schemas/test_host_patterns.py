"""Hosts and origins are compared by their meaning, not by their spelling."""

import pytest

from schemas.host_patterns import Authority, HostPattern, OriginPattern

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
