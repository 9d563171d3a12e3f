"""What was probably meant by an operator that filters do not have: a near miss, or the word of another product."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

ALIKE = 0.8
"""The similarity from which a word counts as mistyped: one letter of four."""
SHORT_CHARACTERS = 3
"""A word of so few letters that does not begin with `$` is compared as it is: it is rather the name of a field."""

WORDS = {
    "$eq": "equal equals is == === = term",
    "$ne": "neq notequal notequals isnot != <> ≠",
    "$gt": "> greater greaterthan after",
    "$gte": ">= ≥ ge greaterorequal greaterthanorequal atleast min since from",
    "$lt": "< less lessthan before",
    "$lte": "<= ≤ le lessorequal lessthanorequal atmost max until",
    "$in": "any anyof oneof terms",
    "$nin": "notin except noneof",
    "$exists": "exist isset hasfield",
    "$contains": "contain includes has elemmatch arraycontains",
    "$not_contains": "excludes notcontain doesnotcontain containsnone",
    "$regex": "re regexp matches match",
    "$not_regex": "notmatch notregexp",
    "$and": "must && allof",
    "$or": "should || anyof",
    "$not": "mustnot ! none",
    "$id": "ids documentid",
    "$text": "document documents content pagecontent",
}
"""An operator, or what stands in its place → other products' words for it, without `$`, blanks, dashes and case."""
SENTENCES = {
    "between range": "a range is {$gte: …, $lte: …}",
    "all containsall": "several elements of a list are asked with {$and: [{field: {$contains: …}}, …]}",
    "null isnull isnotnull notnull empty isempty missing": "absence is asked with {$exists: false}",
    "containsany overlaps hasany": "one of several elements is asked with {$or: [{field: {$contains: …}}, …]}",
    "nor": "none of several is {$not: {$or: […]}}",
    "nand": "not all of several is {$not: {$and: […]}}",
    "size length": "nothing asks for the length of a list",
}
"""Words for what is said in another way → how."""
NO_PARTS = "no operator looks inside strings of metadata; {$text: {$contains: …}} looks inside texts"
IN_TEXTS = "parts of texts are asked with $contains, $not_contains, $regex and $not_regex"
FOR_PARTS = (
    "like ilike notlike contains regex regexp match matches text search startswith endswith prefix suffix wildcard"
)


def meant(name: str, known: Iterable[str]) -> str | None:
    """Return which of the operators `known` was probably meant, None when none was."""
    said = _nearest(name, (*known, *SENTENCES))
    return None if said in SENTENCES else said


def hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that says what to write instead of an unknown operator; "" where nobody knows."""
    said = _nearest(name, (*known, *SENTENCES, IN_TEXTS if "$regex" in known else NO_PARTS))
    if said is None:
        return ""
    if said in SENTENCES or said in (NO_PARTS, IN_TEXTS):
        return f": {SENTENCES.get(said, said)}"
    return f": did you mean '{said}'?"


@cache
def _known_words(known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in known:
        words = (
            FOR_PARTS
            if each in (NO_PARTS, IN_TEXTS)
            else each
            if each in SENTENCES
            else f"{each} {WORDS.get(each, '')}"
        )
        for word in words.split():
            found.setdefault(_folded(word), each)
    return found


def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    words = _known_words(known)
    word = _folded(name[:40])
    if word not in words and len(name) > SHORT_CHARACTERS:
        word = next(iter(get_close_matches(word, words, n=1, cutoff=ALIKE)), word)
    return words.get(word)


def _folded(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter not in "$_- ")
