"""What an expression is said to require is in every text that it matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.words.regular_expressions import BadPatternError, compiled
from schemas.words.required_parts import required_parts

LETTERS = "abé🙂 -\n"
ATOMS = st.one_of(
    st.sampled_from([*LETTERS, "ab", "abé"]),
    st.sampled_from(
        [".", "^", "$", "[ab]", "[^a]", "[]a]", "[[:alpha:]]", "[[:^alpha:]b]", r"[\]a]", r"\d", r"\b", r"\pL", r"\."]
    ),
    st.sampled_from([r"\x61", r"\141", r"\Qa.b\E", "(?i)", "(?s)", "(?i:b)", "{", "}", "a{,2}", "|", ")", "("]),
)
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "{0}", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "{0,2}?", "**"]
)
SEQUENCES = st.lists(st.builds(str.__add__, ATOMS, QUANTIFIERS), max_size=5).map("".join)
GROUPS = st.builds(
    "{}{}){}{}".format, st.sampled_from(["(", "(?:", "(?P<n>", "(?s:"]), SEQUENCES, QUANTIFIERS, SEQUENCES
)
PATTERNS = st.builds(str.__add__, SEQUENCES, st.one_of(st.just(""), GROUPS))


@given(PATTERNS, st.lists(st.text(LETTERS + "AB.{},2]", max_size=12), max_size=20))
def test_it_is_in_every_text_that_matches(pattern, texts):
    try:
        matching = compiled(pattern)
    except BadPatternError:
        return
    for text in texts:
        if matching.search(text):
            assert all(part in text for part in required_parts(pattern)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("", []),
        (r"two\s+words", ["two", "words"]),
        ("colou?r", ["colo", "r"]),
        ("ab+c", ["ab", "c"]),
        (r"1\.5 \(net\)", ["1.5 (net)"]),
        ("^start.*end$", ["start", "end"]),
        ("a[]|]d", ["a", "d"]),
        ("[[:alpha:]]x", ["x"]),
        ("price (is|was) high", ["price ", " high"]),
        ("one|two", []),
        ("(?i)word", []),
        (r"\Qa*b\E", []),
        (r"\pLword", []),
    ],
)
def test_what_is_plainly_required_is_told(pattern, parts):
    compiled(pattern)
    assert required_parts(pattern) == parts
