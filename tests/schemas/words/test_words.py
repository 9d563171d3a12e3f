"""Texts of any script are split into words that meet again, however they are spelt; and what an expression is said to
require is in every text that it matches."""

import re
import unicodedata

import pytest
import regex
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


LETTERS = "abB2_{}.,]-\n \u00a0\u3000éẞßſÄΣσςЖж漢字かカ한سहि\u093f\u0301१٣３ﬁ🙂"
AS_THEY_ARE = r"""
    a b é . 漢 ж σ - ^ [ab] [^a] []a] [^]a-] [Ж-я] | ) ( \w \W \d \D \s \S \b \B [\w-] [^\W\d] [\S] [^\s漢] [\D] \.
    \pL \p{Greek} \P{Greek} \p{IsCyrillic} [\p{M}_] \u6F22 \x61 \A (?i:ß) (?i:Σ)
"""
OTHERWISE = r"""
    } \}  $ \Z  \z \Z  (?m:^) (?:^|(?<=\n))  (?m:$) (?=\n|\Z)  (?s:.) [\s\S]  \x{6F22} 漢  \u{e9} é  \U00006F22 漢
    [[:alpha:]] [A-Za-z]  [[:^alpha:]b] (?:[^A-Za-z]|b)  [a[b漢]-] [ab漢-]  [\w&&[^b]] (?!b)\w  [\w--\d] (?!\d)\w
    \< \b(?=\w)  \> \b(?<=\w)  \b{start} \b(?=\w)  { -  a{,2} -  \Qa\E -  \Z -  (?=a) -  \1 -
"""
MEANING = {each: each for each in AS_THEY_ARE.split()} | dict(
    zip(OTHERWISE.split()[::2], OTHERWISE.split()[1::2], strict=True)
)
"""Parts of expressions, and how Python's module `regex` says the same; what is refused has any meaning."""
ONCE = [[], ["*"], ["+"], ["?"], ["{0}"], ["{2}"], ["{ 1, }"], ["{0,2}"], ["*?"], ["+?"], ["{0,2}?"]]
QUANTIFIERS = st.sampled_from([*ONCE, ["+", "*"], ["+", "+"], ["+?", "*"], ["{2}", "{0,1}"]])


def _repeated(part, quantifiers, few):
    written, meaning = part
    for each in quantifiers if few else ():
        written, meaning = written + each, f"(?:{meaning}){each.replace(' ', '')}"
    return written, meaning


PARTS = st.builds(_repeated, st.sampled_from(sorted(MEANING.items())), QUANTIFIERS, st.booleans())
SEQUENCES = st.lists(PARTS, max_size=4).map(lambda parts: tuple(map("".join, zip(*parts, strict=True))) or ("", ""))
GROUPS = st.builds(
    lambda opened, inner, repeated: _repeated((f"{opened}{inner[0]})", f"(?:{inner[1]})"), repeated, True),
    st.sampled_from(["(", "(?:", "(?P<n>", "(?<é1>"]),
    SEQUENCES,
    QUANTIFIERS,
)
PATTERNS = st.builds(
    lambda *parts: tuple(map("".join, zip(*parts, strict=True))), SEQUENCES, GROUPS | SEQUENCES, SEQUENCES
)


@example((r"\bÜbung\b.\d章", r"\bÜbung\b.\d章"), False, ["die Übung ３章", "Übungen"])
@given(PATTERNS, st.booleans(), st.lists(st.text(LETTERS, max_size=6), min_size=5, max_size=20))
def test_expressions_mean_what_they_do_in_a_model_and_what_one_is_said_to_require_is_in_every_match(
    pattern, ignores_case, texts
):
    written, meaning = (f"(?i){each}" if ignores_case else each for each in pattern)
    try:
        matching, modelled = compiled(written), regex.compile(meaning)
    except (BadPatternError, regex.error):
        return
    for text in texts:
        assert matching(text) == (modelled.search(text) is not None), (written, text)
        assert not matching(text) or all(part in text for part in required_parts(written)), (written, text)


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
        ("a+*b+?c", ["b", "c"]),
        ("(?s)a.b", ["a", "b"]),
        (r"x\<ab\>", ["x", "ab"]),
        (r"a\b{start}b", []),
        ("a[b[c]d]e", []),
        ("ab{ 0, 1 }c", ["a", "c"]),
        (r"\pLword", []),
    ],
)
def test_what_is_plainly_required_is_told(pattern, parts):
    compiled(pattern)
    assert required_parts(pattern) == parts
