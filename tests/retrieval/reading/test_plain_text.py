"""Text files of any common encoding, and Markdown with front matter."""

from contextlib import closing

import pytest

from retrieval.reading import DocumentReader, UnreadableError, kind_named
from retrieval.reading.front_matter import split_front_matter

GERMAN = "Über die Straße führt eine Brücke, die größer ist als alle anderen Brücken der Stadt.\n" * 4
RUSSIAN = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 4
JAPANESE = "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n" * 4
CHINESE = "道可道,非常道。名可名,非常名。无名天地之始,有名万物之母。\n" * 4
KOREAN = "나랏말싸미 듕귁에 달아 문자와로 서르 사맛디 아니할쎄 이런 전차로 어린 백성이\n" * 4


@pytest.fixture
def reader():
    with closing(DocumentReader()) as reader:
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


YAML = """---
title: The plan
tags: backup, restore; nightly
author: Ada
lang: en-GB
date: 2024-05-01
weights: [1, .nan, 2.5]
nothing:
---
# Heading
"""


def test_yaml_and_toml_become_metadata_other_texts_are_left_alone_and_no_line_moves():
    front = split_front_matter(YAML)
    assert front.title == "The plan"
    assert front.metadata == {
        "tags": ["backup", "restore", "nightly"],
        "author": "Ada",
        "language": "en",
        "date": "2024-05-01",
        "weights": [1, "nan", 2.5],
    }
    assert front.warnings == []
    for text in (YAML, YAML.replace("\n", "\r\n"), YAML.removesuffix("# Heading\n")):
        front = split_front_matter(text)
        assert len(front.text.splitlines()) == len(text.splitlines())
        assert front.text.strip() == text.splitlines()[-1].replace("---", "").strip()
    front = split_front_matter('+++\ntitle = "Plan"\ntags = ["a", "a", " b "]\ndate = 2024-05-01\n+++\nText\n')
    assert (front.title, front.metadata) == ("Plan", {"tags": ["a", "b"], "date": "2024-05-01"})
    for text in (
        "---\nbuild: 123456789012345678901234567890\n---\n",
        "+++\nbuild = 123456789012345678901234567890\n+++\n",
    ):
        front = split_front_matter(text)
        assert (front.metadata, front.warnings) == ({"build": "123456789012345678901234567890"}, [])
    for text in ("# None\n", "---\n\nA rule, then text\n\n---\n", "---\ntitle: never closed\n", "+++\nnever closed\n"):
        assert split_front_matter(text) == type(front)(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "inside",
    [
        "title: [never closed",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]",
        "a: " + "[" * 1_200,
        "a: !!python/object/apply:os.system ['true']",
        "number: " + "9" * 5_000,
    ],
)
def test_front_matter_that_cannot_be_read_stays_text_with_a_warning(inside):
    text = f"---\n{inside}\n---\nText\n"
    front = split_front_matter(text)
    assert (front.text, front.metadata) == (text, {})
    assert len(front.warnings) == 1
