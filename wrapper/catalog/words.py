"""Words for the text index: identifiers split into their parts, and queries for which no text is a syntax error.

The index itself splits at everything that is neither letter nor digit, so `std::env` and `snake_case` are found
in parts and, as phrases, whole; `getUserName` is one word to it. The shadow column adds what is missing: the
parts of camel-case words, and the joined form of words with underscores.

A document's heading, its title and its section, is indexed beside its text, and counts for more; its tags count for
less.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from schemas.records import Metadata
from schemas.stop_words import STOP_WORDS

MAX_QUERY_TERMS = 64
"""Words and phrases that the index is asked for: of a longer question the longest words, which tell most."""
MAX_WORDS_IN_PHRASES = 128
"""In all phrases of a question together."""
HEADING_WEIGHT = 2.0
TAGS_WEIGHT = 0.5
"""What a word counts in a heading and in a tag, where it counts 1 in a text (tags by seed 000: content 10, tags 5)."""

_COMPOUND = re.compile(r"[^\W_]+(?:(?:_+|::|->|[.\-/:])[^\W_]+)*")
_QUOTED = re.compile(r'"([^"]+)"')
_SIMPLE = re.compile(r"[^\W_]+")
# Letter by letter would do, and one expression for all texts: this is for speed.
_FOREIGN = re.compile(r"[^\x00-\x7f]{1,16}")
_FOLDED_ASCII = bytes(
    ord(letter.lower()) if (letter := chr(code)).isalnum() and code < 128 else 32 for code in range(256)
)
_WORD = re.compile(r"\w+")
# A capital after a small letter or digit, the last of several capitals before a small letter, an inner underscore;
# written to begin with one set of characters because the search then skips ordinary prose fast.
_SEAM = re.compile(r"[A-Z_](?:(?<=[a-z\d][A-Z])|(?<=[A-Z]{2})(?=[a-z])|(?<=[^\W_]_)(?=[^\W_]))")
_HUMP = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def identifier_words(text: str) -> str:
    """What the shadow column holds for a text: parts of camel-case words and joined underscore words, in order."""
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


def heading_of(metadata: Metadata) -> str:
    """The words above a text: `title` and `section` of its metadata, where they are strings. A section is a path that
    may begin with the title, which is not said twice."""
    title, section = (found if isinstance(found := metadata.get(name), str) else "" for name in ("title", "section"))
    return section if section.startswith(title) else f"{title}\n{section}"


def tags_of(metadata: Metadata) -> str:
    """The `tags` of a metadata, a line for each."""
    tags = metadata.get("tags")
    return "\n".join(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ""


def query_terms(query: str) -> list[str]:
    """What is asked of the index for any text of a user: words, and phrases with spaces between their words.

    A compound (`std::env`, `snake_case`, `a.b`) is asked as a phrase and in its parts, a camel-case word whole and
    in its parts, so that a whole match outranks a partial one; what is in quotation marks as a phrase too. Stop words
    count in phrases alone, unless there is no other word. There are at most `MAX_QUERY_TERMS`.
    """
    left_out = STOP_WORDS if any(_spelt(word) not in STOP_WORDS for word in _SIMPLE.findall(query)) else frozenset()
    phrases = [simple for quoted in _QUOTED.findall(query) if len(simple := _SIMPLE.findall(quoted)) > 1]
    terms = {_spelt(" ".join(simple)): None for simple in phrases}
    for compound in _COMPOUND.findall(query):
        simple = _SIMPLE.findall(compound)
        if len(simple) > 1:
            terms[_spelt(" ".join(simple))] = None
            terms[_spelt("".join(simple))] = None
        for word in simple:
            terms[_spelt(word)] = None
            humps = _humps(word)
            if len(humps) > 1:
                terms.update((_spelt(hump), None) for hump in humps)
    return _most_telling([term for term in terms if term not in left_out])


def _most_telling(terms: list[str]) -> list[str]:
    words_left = MAX_WORDS_IN_PHRASES
    asked = []
    for term in terms:
        words = term.count(" ") + 1
        if words == 1 or words <= words_left:
            asked.append(term)
            words_left -= words if words > 1 else 0
    if len(asked) <= MAX_QUERY_TERMS:
        return asked
    longest = set(sorted(asked, key=len, reverse=True)[:MAX_QUERY_TERMS])
    return [term for term in asked if term in longest]


def folded_words(text: str) -> list[str]:
    """The words of a text in small letters without diacritics, for an index that does not fold them itself."""
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
    # One spelling for each term that occurs twice; the index folds letters its own way, and not all that Python does.
    return term.lower() if term.isascii() else term
