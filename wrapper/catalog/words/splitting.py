"""What the word index holds of a document, and what is asked of it for a question, in which no text is a syntax error.

Texts are split by the rules of `schemas/words/splitting.py`: `std::env` and `snake_case` are found in parts and, as
phrases, whole; `getUserName` is one word. A shadow field adds the parts of camel-case words and the joined form of
words with underscores.

A document's heading (its title and its section) is indexed beside its text and counts for more; its tags count for
less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from schemas.records import Metadata
from schemas.words.splitting import RUN, is_letter, is_spaceless, normalized, split
from schemas.words.stop_words import stop_words_of
from wrapper.catalog.contract import WordRow
from wrapper.catalog.words.languages import DEFAULT, language_of

MAX_QUERY_TERMS = 64
"""The most words and phrases asked of the index. A longer question keeps its longest words, which tell most."""
MAX_WORDS_IN_PHRASES = 128
"""The most words in all phrases of a question together."""
HEADING_WEIGHT = 2.0
TAGS_WEIGHT = 0.5
"""The weight of a word in a heading and in a tag, where it is 1 in a text (tags: contract *context*, content 10, tags
5)."""

_COMPOUND = re.compile(rf"{RUN}(?:(?:_+|::|->|[.\-/:]){RUN})*")
_QUOTED = re.compile(r'"([^"]+)"')
_RUN = re.compile(RUN)
_SIMPLE = re.compile(r"[^\W_]+")
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


def word_row(position: int, text: str, metadata: Metadata, collection: Metadata) -> WordRow:
    """Return what the word index holds of a document in a collection with this metadata."""
    heading = heading_of(metadata)
    return WordRow(position, heading, text, tags_of(metadata), language_of(f"{heading}\n{text}", metadata, collection))


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


def query_terms(query: str, languages: Iterable[str] = (DEFAULT,)) -> dict[str, int]:
    """Return the words and phrases to ask of the index for any text of a user, and how often each is said.

    A phrase has spaces between its words. A compound (`std::env`, `snake_case`, `a.b`) is asked as a phrase and in its
    parts, a camel-case word whole and in its parts, so that a whole match outranks a partial one; text in quotation
    marks is asked as a phrase too. Stop words of the languages count in phrases alone, unless the query has no other
    words. There are at most `MAX_QUERY_TERMS`.
    """
    query = normalized(query)
    words_of_query = split(query)
    is_stop_word = stop_words_of(words_of_query, languages)
    has_others = not all(map(is_stop_word, words_of_query))
    phrases = [words for quoted in _QUOTED.findall(query) if len(words := _phrase(quoted)) > 1]
    terms = dict.fromkeys(map(" ".join, phrases), 0)

    def say(words: Sequence[str]) -> None:
        term = " ".join(words)
        terms[term] = terms.get(term, 0) + 1

    for compound in _COMPOUND.findall(query):
        runs = _RUN.findall(compound)
        if len(runs) > 1:
            say(_phrase(compound))
            if len(joined := split("".join(runs))) == 1:
                say(joined)
        for run in runs:
            words = split(run)
            for place, word in enumerate(words):
                if not _is_end(words, place):
                    say([word])
            humps = _humps(run)
            if len(humps) > 1:
                for hump in humps:
                    say(split(hump))
    # A quoted phrase that no compound repeats is said once.
    return _most_telling(
        {term: max(1, times) for term, times in terms.items() if not (has_others and is_stop_word(term))}
    )


def _phrase(text: str) -> list[str]:
    words = split(text)
    return words[:-1] if words and _is_end(words, len(words) - 1) else words


def _is_end(words: Sequence[str], place: int) -> bool:
    """Return whether a word is only the last letter of the one before it, as at the end of a run without spaces."""
    return place > 0 and is_letter(words[place]) and is_spaceless(words[place - 1]) and not is_letter(words[place - 1])


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


def _humps(word: str) -> list[str]:
    return _HUMP.findall(word) if _SEAM.search(word) else [word]
