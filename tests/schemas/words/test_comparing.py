"""A text has a word of a question in every form that the word index finds it by, however it is spelt; and what it has
besides plain words: names with their signs, and numbers without what stands between their digits."""

import pytest

from schemas.words.comparing import AskedWords, TextWords
from schemas.words.shadows import grouped_numbers, signed_names, with_joined_numbers
from schemas.words.splitting import normalized

FORMS = [
    ("Mäuse fangen", "Eine Maus wird mit einer Falle gefangen.", ["Maus", "gefangen"]),
    ("Häuser", "Das Haus steht leer, auch das Dach.", ["Haus"]),
    ("kitap", "Bu kitabı okudum.", ["kitabı"]),
    ("ABC123", "型番ＡＢＣ１２３の出荷", ["ＡＢＣ１２３"]),
    ("パスワード", "ﾊﾟｽﾜｰﾄﾞを変更する", ["ﾊﾟｽﾜｰﾄﾞ"]),
    ("m2", "eine Fläche von 50 m²", ["m²"]),
    ("Sicherung", "Die Siche\u00adrung ist raus.", ["Siche\u00adrung"]),
    ("ёлка", "на елке", ["елке"]),
    ("Ελλάς", "ΕΛΛΑΣ", ["ΕΛΛΑΣ"]),
    ("Strasse", "STRAẞE und Straße", ["STRAẞE", "Straße"]),
    ("كتاب", "كِتَابٌ جديد", ["كِتَابٌ"]),
    ("שלום", "שָׁלוֹם עולם", ["שָׁלוֹם"]),
    ("tieng Viet", "tiếng Việt", ["tiếng", "Việt"]),
    ("รหัสผ่าน", "เปลี่ยนรหัสผ่านใหม่", ["รหัสผ่าน"]),
    ("किताब", "नई किताबें", ["किताबें"]),
    ("백업", "백업은 매일", ["백업"]),
    ("3月のiPhone", "3月のiPhone用", ["3月のiPhone"]),
    ("running configuration", "It runs as configured.", ["runs", "configured"]),
    ("user name", "getUserName()", []),
    ("get_user_name", "get user name", ["get", "user", "name"]),
    ("1250000", "It costs 1,250,000 dollars.", []),
    ("1'250'000", "It costs 1250000 dollars.", ["1250000"]),
]


@pytest.mark.parametrize(("question", "text", "marked"), FORMS)
def test_a_word_is_found_in_every_form_and_marked_where_it_stands(question, text, marked):
    asked, words = AskedWords(question), TextWords(text)
    assert all(word.is_in(words) for word in asked.known_in([words]))
    assert [text[start:end] for start, end in asked.places_in(text)] == marked


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("1250000", "The door costs 12500 francs."),
        ("12500", "It costs 1,250,000 dollars, 99 or 125000."),
        ("run", "The runtime is not the point."),
        ("C", "A car."),
        ("port", "transport"),
        ("mouse", "A mousse, and no more of it"),
        ("fan", "It was gefangen."),
        ("餐馆", "数据库每天晚上备份"),
    ],
)
def test_another_word_is_not_found(question, text):
    words = TextWords(text)
    assert not any(word.is_in(words) for word in AskedWords(question).known_in([words]))
    assert list(AskedWords(question).places_in(text)) == []


def test_a_name_is_asked_with_its_signs_where_any_text_has_them():
    asked, signed, plain = (
        AskedWords(".NET generics"),
        TextWords("Generics of .NET are"),
        TextWords("generics of a net"),
    )
    assert [word.plain for word in asked.known_in([signed, plain])] == ["=.net", "generics"]
    assert [word.plain for word in asked.known_in([plain])] == ["net", "generics"]
    assert AskedWords("What is it?").known_in([plain]) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("C# and F#, g++ or C++. A* and B+; C-", "c# f# g++ c++ a* b+ c-"),
        ("#define X in .NET, <div class='a'> and <div></div>, \\section", "#define .net \\section <div> <div>"),
        ("--no-cache-dir and -v of $HOME, ${HOME}, @media `#if`", "--no-cache-dir -v $home $home @media #if"),
        ("**C++** and *F#*, Ｃ＃ / C#/.NET", ".net c++ f# c# c#"),
        ("a && b || c => d", "&& || =>"),
        ("# Title\n## More\n- item\n* item\n**bold** *text* ***x*** --- | a | b |", ""),
        (
            "The end. Next (see it) -dash it .I say, e-mail a@b.org; [x](a.md#part), /page#part, 5 * 3 - 2 = 1 - well-known",
            "",
        ),
        ("value.\n    .then(next) a<b>=c '\\n' US$5 $5 std::vector node.js https://a.b/c?d=e&f", ""),
    ],
)
def test_signs_make_names_and_those_of_sentences_and_markdown_do_not(text, names):
    assert [each.removeprefix("=") for each in signed_names(normalized(text))] == names.split()


@pytest.mark.parametrize(
    "written", ["1,250,000", "1.250.000", "1'250'000", "1’250’000", "1 250 000", "1\u202f250\u00a0000"]
)
def test_numbers_in_groups_of_three_are_one(written):
    assert [joined for _, joined in grouped_numbers(normalized(f"costs {written}."))] == ["1250000"]


@pytest.mark.parametrize("text", ["1.2.3", "2026.04.17", "1,2,3", "12,50", "1,25", "0,125", "1250,000", "1,250.000,5"])
def test_other_numbers_with_signs_are_not(text):
    assert with_joined_numbers(text) == text


def test_what_may_be_two_numbers_or_an_address_stays():
    assert with_joined_numbers("1 250, 1.250, 10.192.168.100, 1,250") == "1 250, 1.250, 10.192.168.100, 1250"
