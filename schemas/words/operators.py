"""What was probably meant by an operator that filters do not have: a near miss, or the word of another product."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

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
    "$and": "must && allof andall",
    "$or": "should || anyof orall",
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
NOT_ASKED = {
    "$where $expr $function": "no code is run in a filter",
    "$geo $near $geowithin": "nothing asks for places",
    "$type": "nothing asks for the kind of a value",
}
"""Operators of other products for which there is nothing → why."""
AROUND_CONDITIONS = (
    *("bool", "equals", "filter", "filters", "match", "metadata", "metadatas", "query", "range", "term", "terms"),
    "where",
)
"""What other products write around the conditions of a filter."""
OTHER_FILTERS = {
    frozenset(("field", "operator", "value")): ("Haystack", "operator", "field"),
    frozenset(("key", "operator", "value")): ("LlamaIndex", "operator", "key"),
    frozenset(("type", "key", "value")): ("OpenAI", "type", "key"),
    frozenset(("operator", "conditions")): ("Haystack", "operator", None),
    frozenset(("condition", "filters")): ("LlamaIndex", "condition", None),
    frozenset(("type", "filters")): ("OpenAI", "type", None),
}
"""The keys of a filter, or a part of one, of another product → whose it is, and which hold the operator and the field;
what joins others has no field."""
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
    why = next((sentence for names, sentence in NOT_ASKED.items() if name.lower() in names.split()), None)
    if why is not None:
        return f": {why}"
    said = _nearest(name, (*known, *SENTENCES, IN_TEXTS if "$regex" in known else NO_PARTS))
    if said is None:
        return ""
    if said in SENTENCES or said in (NO_PARTS, IN_TEXTS):
        return f": {SENTENCES.get(said, said)}"
    return f": did you mean '{said}'?"


def other_filter(source: Mapping[str, Any]) -> str | None:
    """Return the sentence that shows our form of what is a filter of another product by its keys and its operator; None
    where it is none."""
    found = OTHER_FILTERS.get(frozenset(source)) if len(source) in (2, 3) else None
    if found is None:
        return None
    product, operator, field = found
    word = source[operator]
    known = [each for each in WORDS if each not in ("$id", "$text")]
    ours = _known_words(tuple(known)).get(_folded(word[:40])) if isinstance(word, str) else None
    if ours is None or (field is not None and not isinstance(source[field], str)):
        return None
    if field is None:
        shown = f'{{"{ours}": […]}}'
    else:
        value = (
            "…" if isinstance(source["value"], dict | list) else json.dumps(source["value"], ensure_ascii=False)[:40]
        )
        named = json.dumps(source[field].removeprefix("meta.")[:40], ensure_ascii=False)
        shown = f"{{{named}: {value}}}" if ours == "$eq" else f'{{{named}: {{"{ours}": {value}}}}}'
    return f"this looks like a filter of {product}; here: {shown}"


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
