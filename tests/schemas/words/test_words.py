"""Texts of any script are split into words that meet again, however they are spelt; and what an expression is said to
require is in every text that it matches."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.words.regular_expressions import BadPatternError, compiled
from schemas.words.required_parts import required_parts
from schemas.words.splitting import MARKS, is_letter, is_spaceless, normalized, split, without_accents

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Größe, GRÖSSE, Strasse Straße", ["grösse", "grösse", "strasse", "strasse"]),
        ("naïve — “café”", ["naïve", "café"]),
        ("ﬁne ＦＵＬＬ width", ["fine", "full", "width"]),
        ("ελληνικός ΕΛΛΗΝΙΚΌΣ", ["ελληνικόσ", "ελληνικόσ"]),
        ("Sicher\u00adung", ["sicherung"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("½ m²", ["1", "2", "m2"]),
        ("\x00 a\x00b", ["a", "b"]),
        ("", []),
    ],
)
def test_words_are_folded_alike_whatever_letters_are_around_them(text, words):
    assert split(text) == words
    assert split(f"{text} – x") == [*words, "x"]
    assert split(f"{text} 東京") == [*words, "東京", "京"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京都", ["東京", "京都", "都"]),
        ("日本語、英語", ["日本", "本語", "語", "英語", "語"]),
        ("3月のiPhone用", ["3", "月の", "の", "iphone", "用"]),
        ("ﾊﾟｽﾜｰﾄﾞ", ["パス", "スワ", "ワー", "ード", "ド"]),
        ("葛\U000e0100飾", ["葛飾", "飾"]),
        ("백업은 매일", ["백업", "업은", "은", "매일", "일"]),
        ("รหัสผ่าน", ["รหั", "หัส", "สผ่", "ผ่า", "าน", "น"]),
    ],
)
def test_scripts_without_spaces_are_split_into_two_letters_each(text, words):
    assert split(text) == words


@pytest.mark.parametrize(
    ("word", "plain"), [("café", "cafe"), ("й", "и"), ("が", "が"), ("한", "한"), ("ที่", "ที่"), ("מִלָּה", "מלה")]
)
def test_diacritics_are_left_out_where_they_make_no_other_letter(word, plain):
    assert without_accents(word) == plain


@given(TEXTS)
@example("ǆ İ ﷺ ㍿")
def test_words_are_what_they_are_split_into(text):
    for word in split(text):
        assert word.strip() == word != ""
        assert without_accents(word)
    assert split(normalized(text)) == split(text)


@given(TEXTS)
def test_case_makes_no_difference(text):
    assert split(text.casefold()) == split(text)


@pytest.mark.parametrize(
    ("word", "spaceless", "letter"),
    [("水", True, True), ("ที่", True, True), ("東京", True, False), ("x", False, False), ("é", False, False)],
)
def test_a_letter_of_a_script_without_spaces_is_told_from_a_word(word, spaceless, letter):
    assert (is_spaceless(word), is_letter(word)) == (spaceless, letter)


def test_the_marks_are_all_that_unicode_has_below_its_compatibility_forms():
    marks = re.compile(f"[{MARKS}]")
    for code in range(0x300, 0xFE30):
        assert (marks.match(chr(code)) is not None) == unicodedata.category(chr(code)).startswith("M"), hex(code)


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
