"""Text files of any common encoding, and Markdown with front matter."""

from __future__ import annotations

import pytest

from retrieval.reading import DocumentReader, UnreadableError, kind_named

GERMAN = "Über die Straße führt eine Brücke, die größer ist als alle anderen Brücken der Stadt.\n" * 4
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 4
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 4
CHINESE = "道可道,非常道。名可名,非常名。无名天地之始,有名万物之母。\n" * 4
KOREAN = "나랏말싸미 듕귁에 달아 문자와로 서르 사맛디 아니할쎄 이런 전차로 어린 백성이\n" * 4


@pytest.fixture
def reader():
    with DocumentReader() as reader:
        yield reader


def read(reader, content, kind="text", name="a.txt"):
    return reader.read(content, kind_named(kind), name=name)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "utf-8"),
        (GERMAN, "utf-8-sig"),
        (GERMAN, "cp1252"),
        (GERMAN, "latin-1"),
        (GERMAN, "utf-16"),
        (GERMAN, "utf-16-le"),
        (GERMAN, "utf-16-be"),
        (GERMAN, "utf-32"),
        (GERMAN, "utf-32-be"),
        (RUSSIAN, "koi8-r"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc-jp"),
        (CHINESE, "gb18030"),
        (KOREAN, "euc-kr"),
    ],
)
def test_a_text_is_read_in_its_encoding(reader, text, encoding):
    assert read(reader, text.encode(encoding)).text == text


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\0\0", bytes(range(256)) * 20, b"a\0b", b"\x01\x02\x03 x"])
def test_what_is_no_text_is_unreadable(reader, content):
    with pytest.raises(UnreadableError) as caught:
        read(reader, content)
    assert caught.value.code == "unreadable"
    assert "\n" not in caught.value.message
