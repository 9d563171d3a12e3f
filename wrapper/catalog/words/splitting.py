"""What the word index holds of a document, and what is asked of it for a question, in which no text is a syntax error.

Texts are split by the rules of `schemas/words/splitting.py`: `std::env` and `snake_case` are found in parts and, as
phrases, whole; `getUserName` is one word. A shadow field adds what is found of a text besides these
(`schemas/words/shadows.py`).

A document's heading (its title and its section) is indexed beside its text and counts for more; its tags count for
less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from schemas.records import Metadata
from schemas.words.shadows import grouped_numbers, humps, signed_names, with_joined_numbers
from schemas.words.splitting import RUN, asked_words, normalized, split
from schemas.words.stems import DEFAULT
from schemas.words.stop_words import stop_words_of
from wrapper.catalog.contract import WordRow
from wrapper.catalog.words.languages import language_of

MAX_QUERY_TERMS = 64
"""The most words and phrases asked of the index. A longer question keeps its longest words, which tell most."""
MAX_WORDS_IN_PHRASES = 128
"""The most words in all phrases of a question together."""
HEADING_WEIGHT = 2.0
TAGS_WEIGHT = 0.5
"""The weight of a word in a heading and in a tag, where it is 1 in a text (tags: contract *context*, content 10, tags
5)."""

_COMPOUND = re.compile(rf"{RUN}(?:(?:_+|::|->|[.\-/:]|(?<=\d),(?=\d)){RUN})*")
_QUOTED = re.compile(r'"([^"]+)"')
_RUN = re.compile(RUN)


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
    words. A name is asked with its signs, too, and a number in groups of digits as one. There are at most
    `MAX_QUERY_TERMS`.
    """
    query = normalized(query)
    words_of_query = split(query)
    is_stop_word = stop_words_of(words_of_query, languages)
    signed = signed_names(query)
    has_others = bool(signed) or not all(map(is_stop_word, words_of_query))
    phrases = [words for quoted in _QUOTED.findall(query) if len(words := _phrase(quoted)) > 1]
    terms = dict.fromkeys(map(" ".join, phrases), 0)

    def say(words: Sequence[str]) -> None:
        term = " ".join(words)
        terms[term] = terms.get(term, 0) + 1

    for name in signed:
        say([name])
    for compound in _COMPOUND.findall(with_joined_numbers(query)):
        runs = _RUN.findall(compound)
        if len(runs) > 1:
            say(_phrase(compound))
            if "," not in compound and len(joined := split("".join(runs))) == 1:
                say(joined)
        for run in runs:
            for word in asked_words(split(run)):
                say([word])
            if len(parts := humps(run)) > 1:
                for part in parts:
                    say(split(part))
    for written, joined_number in grouped_numbers(query):
        # The phrase finds it in segments of releases that did not join it.
        terms |= dict.fromkeys({" ".join(split(written)), joined_number} - terms.keys(), 1)
    # A quoted phrase that no compound repeats is said once.
    return _most_telling(
        {term: max(1, times) for term, times in terms.items() if not (has_others and is_stop_word(term))}
    )


def _phrase(text: str) -> list[str]:
    return asked_words(split(text))


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
