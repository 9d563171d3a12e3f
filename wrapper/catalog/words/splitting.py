"""Splitting of texts into words for the word index, and of queries, in which no text is a syntax error.

The index itself splits at everything that is neither letter nor digit, so `std::env` and `snake_case` are found in
parts and, as phrases, whole; `getUserName` is one word to it. A shadow field adds the parts of camel-case words and the
joined form of words with underscores.

A document's heading (its title and its section) is indexed beside its text and counts for more; its tags count for
less.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from schemas.records import Metadata
from schemas.stop_words import STOP_WORDS
from wrapper.catalog.contract import WordRow

MAX_QUERY_TERMS = 64
"""The most words and phrases asked of the index. A longer question keeps its longest words, which tell most."""
MAX_WORDS_IN_PHRASES = 128
"""The most words in all phrases of a question together."""
HEADING_WEIGHT = 2.0
TAGS_WEIGHT = 0.5
"""The weight of a word in a heading and in a tag, where it is 1 in a text (tags: contract *context*, content 10, tags
5)."""

_COMPOUND = re.compile(r"[^\W_]+(?:(?:_+|::|->|[.\-/:])[^\W_]+)*")
_QUOTED = re.compile(r'"([^"]+)"')
_SIMPLE = re.compile(r"[^\W_]+")
# Single letters, and one expression for all texts, would do: runs of letters and a table for ASCII are for speed.
_FOREIGN = re.compile(r"[^\x00-\x7f]{1,16}")
_FOLDED_ASCII = bytes(
    ord(letter.lower()) if (letter := chr(code)).isalnum() and code < 128 else 32 for code in range(256)
)
_WORD = re.compile(r"\w+")
# A seam is a capital after a small letter or digit, the last of several capitals before a small letter, or an inner
# underscore. The expression begins with one set of characters because the search then skips ordinary prose fast.
_SEAM = re.compile(r"[A-Z_](?:(?<=[a-z\d][A-Z])|(?<=[A-Z]{2})(?=[a-z])|(?<=[^\W_]_)(?=[^\W_]))")
_HUMP = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def identifier_words(text: str) -> str:
    """Return the shadow field of a text: parts of camel-case words and joined underscore words, in order."""
    shadow: list[str] = []
    seen_to = 0
    while seam := _SEAM.search(text, seen_to):
        start = seam.start()
        while start > seen_to and (text[start - 1].isalnum() or text[start - 1] == "_"):
            start -= 1
        word = _WORD.match(text, start)
        assert word is not None
        simple = _SIMPLE.findall(word.group())
        for part in simple:
            humps = _humps(part)
            if len(humps) > 1:
                shadow.extend(humps)
        if len(simple) > 1:
            shadow.append("".join(simple))
        seen_to = word.end()
    return " ".join(shadow)


def word_row(position: int, text: str, metadata: Metadata) -> WordRow:
    """Return what the word index holds of a document."""
    return WordRow(position, heading_of(metadata), text, tags_of(metadata))


def heading_of(metadata: Metadata) -> str:
    """Return the words above a text: the `title` and `section` of its metadata, where they are strings.

    A section is a path that may begin with the title, which is then not repeated.
    """
    title, section = (found if isinstance(found := metadata.get(name), str) else "" for name in ("title", "section"))
    return section if section.startswith(title) else f"{title}\n{section}"


def tags_of(metadata: Metadata) -> str:
    """Return the `tags` of a document's metadata, one a line."""
    tags = metadata.get("tags")
    return "\n".join(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ""


def query_terms(query: str) -> dict[str, int]:
    """Return the words and phrases to ask of the index for any text of a user, and how often each is said.

    A phrase has spaces between its words. A compound (`std::env`, `snake_case`, `a.b`) is asked as a phrase and in its
    parts, a camel-case word whole and in its parts, so that a whole match outranks a partial one; text in quotation
    marks is asked as a phrase too. Stop words count in phrases alone, unless the query has no other words. There are at
    most `MAX_QUERY_TERMS`.
    """
    left_out = STOP_WORDS if any(_spelt(word) not in STOP_WORDS for word in _SIMPLE.findall(query)) else frozenset()
    phrases = [simple for quoted in _QUOTED.findall(query) if len(simple := _SIMPLE.findall(quoted)) > 1]
    terms = dict.fromkeys((_spelt(" ".join(simple)) for simple in phrases), 0)

    def say(term: str) -> None:
        spelt = _spelt(term)
        terms[spelt] = terms.get(spelt, 0) + 1

    for compound in _COMPOUND.findall(query):
        simple = _SIMPLE.findall(compound)
        if len(simple) > 1:
            say(" ".join(simple))
            say("".join(simple))
        for word in simple:
            say(word)
            humps = _humps(word)
            if len(humps) > 1:
                for hump in humps:
                    say(hump)
    # A quoted phrase that no compound repeats is said once.
    return _most_telling({term: max(1, times) for term, times in terms.items() if term not in left_out})


def _most_telling(terms: dict[str, int]) -> dict[str, int]:
    words_left = MAX_WORDS_IN_PHRASES
    asked = []
    for term in terms:
        words = term.count(" ") + 1
        if words == 1 or words <= words_left:
            asked.append(term)
            words_left -= words if words > 1 else 0
    longest = set(sorted(asked, key=len, reverse=True)[:MAX_QUERY_TERMS])
    return {term: terms[term] for term in asked if term in longest}


def folded_words(text: str) -> list[str]:
    """Return the words of a text in small letters without diacritics, for an index that does not fold them itself."""
    if not text.isascii():
        text = _FOREIGN.sub(_without_accents, text.lower())
        if not text.isascii():
            return _SIMPLE.findall(text)
    return text.encode().translate(_FOLDED_ASCII).decode().split()


@lru_cache(maxsize=10_000)
def _unaccented(letters: str) -> str:
    decomposed = (letter for letter in unicodedata.normalize("NFKD", letters) if not unicodedata.combining(letter))
    return "".join(letter if letter.isalnum() else " " for letter in decomposed).lower()


def _without_accents(found: re.Match[str]) -> str:
    return _unaccented(found.group())


def _humps(word: str) -> list[str]:
    return _HUMP.findall(word) if _SEAM.search(word) else [word]


def _spelt(term: str) -> str:
    # Terms that differ only in case are asked once. The index folds other letters in its own way, and not all that
    # Python folds.
    return term.lower() if term.isascii() else term
