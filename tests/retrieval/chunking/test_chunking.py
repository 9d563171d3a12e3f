"""Sections and paragraphs are kept together as far as they fit, and what a reader takes for one character is never cut in two."""

import re
from itertools import groupby

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retrieval.chunking import (
    Chunk,
    StructuredText,
    Syntax,
    estimate_tokens,
    opening_heading,
    split_sections,
    split_whole,
    split_windows,
)
from retrieval.chunking.tokens import token_counter
from tests.retrieval.chunking.texts import inked, inked_lines, markdown


def plain(text: str, syntax: Syntax = Syntax.TEXT) -> StructuredText:
    return StructuredText(text, syntax)


@pytest.mark.slow
@given(markdown, st.integers(40, 300))
@example("---\ntitle: A\n---\n# B\ntext", 40)
@settings(max_examples=300, deadline=None)
def test_every_line_is_in_exactly_one_chunk_in_order(text, max_tokens):
    chunks = split_sections(text, max_tokens=max_tokens)
    assert [line for chunk in chunks for line in inked_lines(chunk.text)] == inked_lines(text)


@pytest.mark.slow
@given(st.one_of(markdown, st.text()), st.integers(1, 60), st.sampled_from([StructuredText, plain]))
@settings(max_examples=300, deadline=None)
def test_no_character_is_lost_or_doubled_whatever_the_text(text, max_tokens, read):
    chunks = split_sections(read(text), max_tokens=max_tokens)
    assert inked("".join(chunk.text for chunk in chunks)) == inked(text)
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))


@pytest.mark.slow
@given(markdown, st.integers(20, 300))
@settings(max_examples=200, deadline=None)
def test_pieces_fit_and_a_section_s_pieces_are_neighbours(text, max_tokens):
    chunks = split_sections(text, max_tokens=max_tokens)
    assert all(estimate_tokens(chunk.text) <= max_tokens for chunk in chunks)
    runs = [section_id for section_id, _ in groupby(chunk.section_id for chunk in chunks)]
    assert len(runs) == len(set(runs))


@pytest.mark.slow
@given(markdown)
@settings(max_examples=100, deadline=None)
def test_start_line_is_where_the_chunk_starts(text):
    source = text.split("\n")
    for chunk in split_sections(text):
        assert source[chunk.start_line - 1].rstrip() == chunk.text.split("\n")[0].rstrip()
    for chunk in split_windows(text, tokens=CL100K, max_tokens=40, overlap_tokens=10):
        assert chunk.text.split("\n")[0].rstrip() in source[chunk.start_line - 1]


def sections(chunks: list[Chunk]) -> list[tuple[str, str]]:
    return [(chunk.section, chunk.section_id) for chunk in chunks]


def test_sections_are_named_by_their_heading_path_and_repeated_headings_get_ids_of_their_own():
    text = "before\n\n# Guide\n\ntext\n\n## Set `up` *now*\n\ntext\n\nOther\n=====\n\ntext\n\n### Deep {#deep .new}\n\ntext"
    assert sections(split_sections(text)) == [
        ("", ""),
        ("Guide", "guide"),
        ("Guide > Set up now", "guide/set-up-now"),
        ("Other", "other"),
        ("Other > Deep", "other/deep"),
    ]
    assert split_sections(text.replace("\n", "\r\n")) == split_sections(text)
    text = "# A\nx\n## Use\nx\n# A\nx\n## Use\nx\n## Use\nx\n## Use 2\nx\n# !\nx\n"
    ids = [chunk.section_id for chunk in split_sections(text)]
    assert ids == ["a", "a/use", "a-2", "a-2/use", "a-2/use-2", "a-2/use-2-2", "section"]
    for nothing in ("", "\n \n\t\n", "\ufeff"):
        assert split_sections(nothing) == split_sections(plain(nothing)) == []


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n# not a heading\n```",
        "~~~\n# no\n\n# no\n~~~",
        "> # quoted",
        "- # in a list",
        "    # indented code",
        "\\# no",
    ],
)
def test_a_hash_that_is_not_a_heading_is_text(text):
    assert sections(split_sections(text)) == [("", "")]


def test_front_matter_is_no_heading_nor_is_a_heading_a_chunk_of_its_own_and_a_section_of_one_line_stays_one():
    text = "---\ntitle: 'My page'\ntags: [a]\n---\n\n# Real\n\ntext"
    assert sections(split_sections(text)) == [("", ""), ("Real", "real")]
    fence = "```\n" + "echo lamp\n" * 80 + "```"
    chunks = split_sections(f"# Lamps\n\n{fence}\n", max_tokens=200)
    assert chunks[0].text.startswith("# Lamps\n\n```\necho lamp")
    chunks = split_sections(f"# Lamps\n\nRed.\n\n# Towers\n\n{PARAGRAPH * 40}", max_tokens=256)
    assert chunks[0].text == "# Lamps\n\nRed."


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("## Low\n# High", "Low"),
        ("Set {#set}\n---", "Set"),
        ("[![CI](a.svg)](b)\n\n<p align=center><img src=c></p>\n\n---\n\n# Lamps", "Lamps"),
        ("A letter.\n\n# Vacation", None),
        ("| Item |\n| --- |\n| Lamp |\n\n# Vacation", None),
        ("```sh\n# comment\n```\n\n# Late", None),
        ("no heading", None),
        ("#", None),
    ],
)
def test_a_title_is_the_heading_with_which_a_text_begins(text, title):
    assert opening_heading(StructuredText(text)) == title


def test_a_fence_is_kept_whole_where_it_fits_and_else_cut_between_lines():
    fence = "  ```\n" + "\n".join(f"  echo {number}" for number in range(12)) + "\n  ```"
    text = f"- {'word ' * 50}\n\n{fence}\n\n  {'word ' * 40}\n"
    assert any(chunk.text == fence for chunk in split_sections(text, max_tokens=80))
    fence = "```\n" + "\n\n".join(f"line {number}" for number in range(12)) + "\n```"
    items = f"- item\n\n  words\n\n- {'word ' * 40}\n\n"
    chunks = split_sections("# A\n\n" + "word " * 45 + f"\n\n{items}{fence}\n\n" + "word " * 50, max_tokens=90)
    assert len(chunks) > 2
    assert any(fence in chunk.text for chunk in chunks), "nor where no scrap would remain"
    fence = ["```", *(f"line number {number}" for number in range(60)), "```"]
    chunks = split_sections("\n".join(fence), max_tokens=50)
    assert [line for chunk in chunks for line in chunk.text.split("\n")] == fence


def test_one_long_line_is_cut_between_sentences_and_text_is_packed_by_paragraph():
    line = " ".join(f"Sentence number {number} says this." for number in range(40))
    chunks = split_sections(line, max_tokens=60)
    assert len(chunks) > 4
    assert all(chunk.text.endswith("this.") and chunk.text.startswith("Sentence") for chunk in chunks)
    for word in ("x", "9", "漢", "é", "="):
        chunks = split_sections(plain(word * 5000), max_tokens=60)
        assert "".join(chunk.text for chunk in chunks) == word * 5000
        assert all(estimate_tokens(chunk.text) <= 60 for chunk in chunks)
    paragraphs = [f"Paragraph {number}\n" + "word " * 25 for number in range(6)]
    chunks = split_sections(plain("\n \n".join(paragraphs)), max_tokens=80)
    assert [chunk.text.count("Paragraph") for chunk in chunks] == [2, 2, 2]
    assert {(chunk.section, chunk.section_id) for chunk in chunks} == {("", "")}


RESERVED = 12
"""Tokens that a chunk leaves to the model."""
PARAGRAPH = "The lamp of Gull Point flashes four times a minute. "


@pytest.mark.parametrize("limit", [60, 128, 256])
@pytest.mark.parametrize("sentences", range(1, 61, 3))
def test_prose_leaves_no_scrap(sentences, limit):
    chunks = split_sections(f"# Lamps\n\n{PARAGRAPH * sentences}\n\n{PARAGRAPH}\n", max_tokens=limit)
    room = limit - RESERVED - estimate_tokens("Lamps")
    assert len(chunks) == 1 or min(estimate_tokens(chunk.text) for chunk in chunks) * 6 >= room
    assert max(estimate_tokens(chunk.text) for chunk in chunks) <= room


CL100K = token_counter()
SAMPLES = [
    *("a", "é", "e\u0301", "漢", "한", "\u1112\u1161\u11ab", "क्षि", "กำ"),
    *("👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "\u0600", "\r", "\n", " "),
    *("🇩", "\u200d", "\u0301", "\u1112"),
]
PIECES = ["e\u0301", "\u1112\u1161\u11ab", "👩‍👧", "🇩🇪", "👍🏽", "กำ", "கி"]

SPLITS = {
    "sections": lambda text: split_sections(plain(text), max_tokens=40),
    "markdown": lambda text: split_sections(text, max_tokens=40),
    "windows": lambda text: split_windows(text, tokens=CL100K, max_tokens=48, overlap_tokens=12),
    "code": lambda text: split_windows(plain(text, Syntax.CODE), tokens=CL100K, max_tokens=48, overlap_tokens=0),
    "whole": lambda text: split_whole(text, tokens=CL100K, max_tokens=48).chunks,
}


@pytest.mark.slow
@given(st.lists(st.sampled_from(SAMPLES), max_size=40).map("".join))
@settings(max_examples=150, deadline=None)
def test_starts_of_graphemes_are_those_of_the_standard(text):
    document = plain(text)
    starts = [match.start() for match in regex.finditer(r"\X", document.text)]
    assert [document.grapheme_start(place) for place in range(len(document.text))] == [
        max(start for start in starts if start <= place) for place in range(len(document.text))
    ]


@pytest.mark.parametrize("piece", PIECES)
def test_starts_are_found_far_into_a_long_run(piece):
    document = plain("x" + piece * 400)
    places = range(1, len(document.text))
    assert {place for place in places if document.grapheme_start(place) == place} == set(places[:: len(piece)])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("piece", PIECES)
def test_an_endless_word_is_cut_between_graphemes(split, piece):
    text = "x" + piece * 300
    chunks = SPLITS[split](text)
    assert len(chunks) > 3
    for chunk in chunks:
        assert regex.fullmatch(f"x?(?:{piece})+", chunk.text), chunk
    if split != "windows":
        assert "".join(chunk.text for chunk in chunks) == text


@given(st.lists(st.sampled_from(SAMPLES), max_size=120).map("".join), st.sampled_from(sorted(SPLITS)))
@settings(max_examples=120, deadline=None)
def test_no_chunk_begins_or_ends_within_a_grapheme(text, split):
    text = text.replace("\r", "\n")
    clusters = set(regex.findall(r"\X", text))
    clusters |= {cluster.rstrip() for cluster in clusters}  # white space at the end of a chunk goes
    for chunk in SPLITS[split](text):
        assert set(regex.findall(r"\X", chunk.text)) <= clusters, chunk


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_a_long_run_of_graphemes_is_split_in_linear_time_and_one_that_is_longer_than_a_chunk_is_cut(split):
    for piece in ("🇩🇪", "👩‍👩‍👧", "\u1112\u1161\u11ab"):
        assert len(SPLITS[split](piece * 4_000)) > 50
    assert len(SPLITS[split]("a" + "\u0301" * 2_000)) > 5


LARGER = {
    "sections": lambda text: split_sections(text, max_tokens=128),
    "windows": lambda text: split_windows(text, tokens=CL100K, max_tokens=100, overlap_tokens=20),
    "whole": lambda text: split_whole(text, tokens=CL100K, max_tokens=100).chunks,
}
NOTHING_BELOW = ["", "![Chart](chart.svg)", "<!-- to be written -->", "---", "-", "[a]: https://a.example", "&nbsp;"]
BELOW = {"text": "The lamp is lit.", "table": "| Lamp | Lit |\n| --- | --- |\n" + "| Gull Point | at seven |\n" * 40}


@pytest.mark.parametrize("split", LARGER)
@pytest.mark.parametrize("nothing", NOTHING_BELOW)
@pytest.mark.parametrize("text", BELOW.values(), ids=BELOW)
def test_no_chunk_is_a_heading_alone(split, nothing, text):
    """It goes with what follows, at the end with what precedes, and names only what is above a chunk's own text."""
    before = f"Setext\n======\n\n{nothing}\n\n## Lamps {{#lamps}}\n\n{nothing}\n\n{text}\n\n"
    chunks = LARGER[split](f"{before}## Empty\n\n{nothing}\n\n## Seals\n\nThey bask.\n\n# End\n\n{nothing}\n\n## Last")
    assert all(re.search("lamp|Gull|bask", chunk.text) for chunk in chunks), [chunk.text for chunk in chunks]
    assert chunks[0].text.startswith("Setext")
    assert chunks[0].section in ("Setext > Lamps", "Lamps")
    assert chunks[0].text_line > chunks[0].start_line == 1
    assert chunks[-1].text.endswith("## Last")
    assert split == "windows" or len(chunks) == 1 or chunks[-1].section in ("Setext > Seals", "Seals")
    assert {"Empty", "Setext", "End", "Last"}.isdisjoint(chunk.section.rpartition(" > ")[2] for chunk in chunks)


@pytest.mark.parametrize("split", LARGER)
def test_a_document_of_headings_is_one_chunk_and_one_above_what_is_too_long_stays_with_its_beginning(split):
    (chunk,) = LARGER[split]("# A\n\n---\n\n## B\n\n### C\n")
    assert (chunk.section, chunk.text_line) == ("B" if split == "whole" else "A", 1)
    for below in (PARAGRAPH * 9, "x" * 900, f"- {PARAGRAPH * 9}", f"```\n{PARAGRAPH * 9}\n```", "echo lamp\n" * 90):
        for size in range(20):
            chunks = LARGER[split](f"{'word ' * size}.\n\n# Gull Point\n\n## Lamps of the coast\n\n{below}\n\n# End")
            assert not any(re.fullmatch(r"(?:\s*#.*)+", chunk.text) for chunk in chunks)
            assert not any(re.search(r"(?:^|\n)#.*\Z", chunk.text) for chunk in chunks[:-1])
