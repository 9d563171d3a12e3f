"""Windows, for the contract *documents*, §6: 512 to 1024 tokens, overlap of 50 to 100, "sentence-aware splitting (preserve
paragraph boundaries)". Whole documents, for the contract *rules*, "Chunking Strategy": a test for each of its rules."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import Chunk, SplitDocument, StructuredText, Syntax, split_whole, split_windows
from retrieval.chunking.tokens import TokenCounter, token_counter
from tests.retrieval.chunking.texts import inked, inked_lines, markdown, unique_prose

CL100K = token_counter()
MINILM = token_counter(MiniLMProvider({}))
SENTENCE = "The old bridge over the river was painted green in the spring of that year. "


def overlap(before: Chunk, after: Chunk) -> str:
    longest = min(len(before.text), len(after.text))
    return next((after.text[:size] for size in range(longest, 0, -1) if before.text.endswith(after.text[:size])), "")


def overlap_tokens(before: Chunk, after: Chunk, tokens: TokenCounter) -> int:
    return tokens.count(overlap(before, after)) - tokens.added()


def without_overlaps(chunks: list[Chunk]) -> str:
    repeated = [0, *(len(overlap(before, after)) for before, after in pairwise(chunks))]
    return "".join(chunk.text[size:] for chunk, size in zip(chunks, repeated, strict=True))


@pytest.mark.slow
@given(unique_prose(), st.integers(24, 120), st.sampled_from([CL100K, MINILM]))
@settings(max_examples=80, deadline=None)
def test_sizes_and_overlaps_keep_to_their_limits_and_nothing_is_lost(text, max_tokens, tokens):
    overlap_limit = max_tokens // 5
    chunks = split_windows(text, tokens=tokens, max_tokens=max_tokens, overlap_tokens=overlap_limit)
    counts = [tokens.count(chunk.text) for chunk in chunks]
    assert all(max_tokens / 2 <= count <= max_tokens for count in counts[:-1])
    assert counts[-1] <= max_tokens
    assert len(chunks) == 1 or counts[-1] >= max_tokens / 4
    for before, after in pairwise(chunks):
        assert overlap_limit / 2 <= overlap_tokens(before, after, tokens) <= overlap_limit
    assert "".join(without_overlaps(chunks).split()) == "".join(text.split())
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))


@pytest.mark.slow
@given(st.one_of(markdown, st.text(max_size=400)), st.integers(16, 60), st.sampled_from(Syntax))
@settings(max_examples=80, deadline=None)
def test_any_text_is_within_the_limit_and_whole(text, max_tokens, syntax):
    chunks = split_windows(StructuredText(text, syntax), tokens=CL100K, max_tokens=max_tokens, overlap_tokens=0)
    assert all(0 < CL100K.count(chunk.text) <= max_tokens for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.removeprefix("\ufeff").split())


def test_a_text_up_to_the_limit_is_one_chunk_and_one_a_little_over_it_leaves_no_silly_tail():
    text = "# Notes\n\n" + SENTENCE * 20
    limit = CL100K.count(text.rstrip())
    (chunk,) = split_windows(text, tokens=CL100K, max_tokens=limit, overlap_tokens=50)
    assert chunk.text == text.rstrip()
    assert len(split_windows(text, tokens=CL100K, max_tokens=limit - 1, overlap_tokens=50)) == 2
    text = (SENTENCE * 65).strip()
    limit = CL100K.count(text) - 3
    chunks = split_windows(text, tokens=CL100K, max_tokens=limit, overlap_tokens=100)
    assert len(chunks) == 2
    assert all(CL100K.count(chunk.text) >= limit / 4 for chunk in chunks)


def test_a_cut_prefers_the_end_of_a_paragraph_and_else_of_a_sentence():
    paragraphs = [(SENTENCE * 9).strip() + f" End {number}." for number in range(8)]
    chunks = split_windows("\n\n".join(paragraphs), tokens=CL100K, max_tokens=512, overlap_tokens=0)
    assert [chunk.text for chunk in chunks] == [
        "\n\n".join(paragraphs[:3]),
        "\n\n".join(paragraphs[3:6]),
        "\n\n".join(paragraphs[6:]),
    ]
    chunks = split_windows(SENTENCE * 60, tokens=CL100K, max_tokens=256, overlap_tokens=25)
    assert all(chunk.text.endswith("year.") for chunk in chunks)
    chunks = split_windows(SENTENCE * 60, tokens=CL100K, max_tokens=256, overlap_tokens=25)
    assert all(chunk.text.startswith("The old") for chunk in chunks)
    words = split_windows("bridge river " * 300, tokens=CL100K, max_tokens=64, overlap_tokens=8)
    assert all(chunk.text.split(" ")[-1] in ("bridge", "river") for chunk in words)
    characters = split_windows("x" * 4_000, tokens=CL100K, max_tokens=64, overlap_tokens=0)
    assert "".join(chunk.text for chunk in characters) == "x" * 4_000


@pytest.mark.parametrize(
    "words",
    [
        "see e.g. Berlin and ",
        "it is 3.14 or so ",
        "as Dr. Smith and J. Jones said ",
        "i.e. nothing ",
        "etc. and so on ",
    ],
)
def test_abbreviations_and_numbers_end_no_sentence(words):
    before, after = (words * 40).strip() + ".", "Then " + (words * 25).strip()
    text = f"{before} {after}"
    chunks = split_windows(text, tokens=CL100K, max_tokens=CL100K.count(text) - 1, overlap_tokens=0)
    assert [chunk.text for chunk in chunks] == [before, after]


@pytest.mark.parametrize("end", ["。", "！", "？"])
def test_sentences_end_without_a_space_in_chinese_and_japanese(end):
    chunks = split_windows(f"橋は春に緑色に塗られました{end}" * 60, tokens=CL100K, max_tokens=256, overlap_tokens=25)
    assert len(chunks) > 2
    assert all(chunk.text.endswith(end) for chunk in chunks)


def test_a_chunk_knows_the_heading_path_that_it_starts_in():
    text = "intro\n\n# Guide\n\n" + SENTENCE * 20 + "\n\n## Use\n\n" + SENTENCE * 20
    chunks = split_windows(text, tokens=CL100K, max_tokens=256, overlap_tokens=0)
    assert [(chunk.section, chunk.section_id, chunk.start_line) for chunk in chunks] == [
        ("", "", 1),
        ("Guide", "guide", 5),
        ("Guide > Use", "guide/use", 9),
    ]
    text = "\n\n".join(f"## Part {number}\n\n" + SENTENCE * 9 for number in range(8))
    chunks = split_windows(text, tokens=CL100K, max_tokens=200, overlap_tokens=0)
    assert not any(chunk.text.split("\n")[-1].startswith("#") for chunk in chunks), "a heading stays with what is below"


def test_lines_of_code_are_not_torn_and_white_space_that_is_too_long_is_not_bridged():
    code = "".join(f"# Step {n}. Then more.\ndef step_{n}(value):\n    return value + {n}\n\n" for n in range(60))
    chunks = split_windows(StructuredText(code, Syntax.CODE), tokens=CL100K, max_tokens=256, overlap_tokens=25)
    assert {chunk.section for chunk in chunks} == {""}
    lines = inked_lines(code)
    assert all(line in lines for chunk in chunks for line in inked_lines(chunk.text))
    first, second = split_windows("a" + "\n" * 20_000 + "b", tokens=CL100K, max_tokens=64, overlap_tokens=16)
    assert (first.text, second.text) == ("a", "b")
    assert split_windows(" \n\t\n", tokens=CL100K) == []


SHORT_SENTENCE = "The old bridge over the river was painted green. "
PARAGRAPH = (SHORT_SENTENCE * 6).strip()
GUIDE = (
    f"# Guide\n\nIntro.\n\n## A\n\nAbout A.\n\n### A1\n\n{PARAGRAPH}\n\n### A2\n\n{PARAGRAPH}\n\n## B\n\n{PARAGRAPH}\n"
)


def split(text: str, max_tokens: int = 8192, section: str = "") -> SplitDocument:
    return split_whole(text, tokens=CL100K, max_tokens=max_tokens, section=section)


def bodies(split: SplitDocument) -> list[str]:
    """Return the chunks' texts without the headers put above them: titles of `markdown`, perhaps cut."""
    return [re.sub(r"\AT [^\n]*\n\n", "", chunk.text) for chunk in split.chunks]


@pytest.mark.slow
@given(markdown, st.integers(60, 200), st.sampled_from([CL100K, MINILM]))
@settings(max_examples=100, deadline=None)
def test_every_word_is_in_exactly_one_chunk_in_order_and_every_chunk_within_the_limit(text, max_tokens, tokens):
    split = split_whole(text, tokens=tokens, max_tokens=max_tokens)
    assert inked("".join(bodies(split))) == inked(text)
    assert all(tokens.count(chunk.text) <= max_tokens for chunk in split.chunks)
    assert [chunk.chunk_index for chunk in split.chunks] == list(range(len(split.chunks)))


@pytest.mark.slow
@given(st.one_of(markdown, st.text(max_size=400)), st.integers(16, 40))
@settings(max_examples=100, deadline=None)
def test_no_limit_is_exceeded_whatever_the_text_and_no_chunk_is_empty(text, max_tokens):
    split = split_whole(text, tokens=CL100K, max_tokens=max_tokens)
    assert all(0 < CL100K.count(chunk.text) <= max_tokens for chunk in split.chunks)
    assert all(body.strip() for body in bodies(split))
    assert bool(split.chunks) == bool(text.removeprefix("\ufeff").strip())


def test_only_split_when_the_token_limit_is_reached_first_at_h2_and_then_at_h3():
    """What is before the first of them is a chunk of its own."""
    limit = CL100K.count(GUIDE.rstrip())
    (chunk,) = split(GUIDE, limit).chunks
    assert (chunk.text, chunk.chunk_index, chunk.start_line) == (GUIDE.rstrip(), 0, 1)
    assert len(split(GUIDE, limit - 1).chunks) == 3
    chunks = split(GUIDE, 200).chunks
    assert [(chunk.section, chunk.section_id, chunk.start_line) for chunk in chunks] == [
        ("Guide", "guide", 1),
        ("A", "a", 5),
        ("B", "b", 17),
    ]
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["# Guide", "## A", "## B"]
    assert chunks[0].text == "# Guide\n\nIntro."
    chunks = split(GUIDE, 100).chunks
    assert [chunk.section_id for chunk in chunks] == ["guide", "a", "a/a1", "a/a2", "b"]
    assert (chunks[2].section, chunks[2].text) == ("A > A1", f"A > A1\n\n### A1\n\n{PARAGRAPH}")


def test_then_at_paragraphs_and_each_chunk_includes_the_section_header():
    text = f"## A\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n## B\n\ntext"
    result = split(text, 150)
    assert [chunk.text for chunk in result.chunks] == [
        f"## A\n\n{PARAGRAPH}\n\n{PARAGRAPH}",
        f"A\n\n{PARAGRAPH}",
        "## B\n\ntext",
    ]
    assert result.warnings == [
        "Section 'A' has more than 150 tokens and no heading to split at: it was cut between paragraphs"
    ]


def test_then_at_sentences_at_last_at_words_and_characters_without_overlap_and_small_sections_stay_apart():
    result = split("## A\n\n" + SHORT_SENTENCE * 40, 100)
    assert len(result.chunks) > 3
    assert all(chunk.text.endswith("green.") for chunk in result.chunks)
    assert "between sentences" in result.warnings[0]
    assert "between words" in split("bridge " * 500, 100).warnings[0]
    assert "between characters" in split("x" * 5_000, 100).warnings[0]
    numbered = " ".join(f"Sentence {number} is here." for number in range(400))
    assert " ".join(chunk.text for chunk in split(numbered, 200).chunks) == numbered
    text = "".join(f"## S{number}\n\ntext\n\n" for number in range(40))
    assert [chunk.section for chunk in split(text, 100).chunks] == [f"S{number}" for number in range(40)]


def test_a_heading_without_text_goes_with_what_follows_and_a_later_h1_ends_a_section():
    chunks = split(f"# Guide\n\n## A\n\n### A1\n\n{PARAGRAPH}\n\n### A2\n\n{PARAGRAPH}", 100).chunks
    assert [(chunk.section, chunk.text.split("\n")[0]) for chunk in chunks] == [
        ("A > A1", "A > A1"),
        ("A > A2", "A > A2"),
    ]
    assert "# Guide\n\n## A\n\n### A1" in chunks[0].text
    chunks = split(f"# One\n\n## A\n\n{PARAGRAPH}\n\n# Two\n\nIntro of two.\n\n## B\n\n{PARAGRAPH}", 100).chunks
    assert [chunk.section for chunk in chunks] == ["A", "Two", "B"]
    chunks = split(f"# One\n\n{PARAGRAPH}\n\n### Deep\n\n{PARAGRAPH}\n\n# Two\n\n{PARAGRAPH}", 100).chunks
    assert [chunk.section for chunk in chunks] == ["One", "One > Deep", "Two"]


@pytest.mark.parametrize(
    ("text", "given", "section"),
    [
        ("# Guide\n\n## Movement Phase\n\ntext", "Core rules", "Core rules"),
        ("# Guide\n\n## Movement Phase\n\ntext", "", "Movement Phase"),
        ("intro\n\n# Guide\n\n### Deep", "", "Guide"),
        ("just text", "", ""),
    ],
)
def test_a_whole_document_is_named_by_the_caller_else_by_its_headings(text, given, section):
    (chunk,) = split(text, section=given).chunks
    assert chunk.section == section


def test_a_document_without_headings_has_the_header_that_the_caller_gave_and_an_endless_one_is_cut():
    chunks = split(f"{PARAGRAPH}\n\n{PARAGRAPH}", 100, section="Core rules").chunks
    assert [chunk.text for chunk in chunks] == [f"Core rules\n\n{PARAGRAPH}"] * 2
    result = split("## " + "long " * 2_000 + "\n\n" + SHORT_SENTENCE * 40, 100)
    assert all(CL100K.count(chunk.text) <= 100 for chunk in result.chunks)
    assert all(chunk.text.startswith("long long") and "…\n\n" in chunk.text for chunk in result.chunks[1:])


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (PARAGRAPH * 4, ["Text without a heading has more than 200 tokens and no heading to split at"]),
        ("# A\n\n```sh\n# b\n", ["The code fence of line 3 is never closed"]),
        ("- item\n\n  ~~~\n  text\n\nmore", ["The code fence of line 3 is never closed"]),
        *((text, []) for text in (GUIDE, "```\n# a\n```", "> ~~~\n> x\n> ~~~", "````\n```\n````\n\ntext")),
    ],
)
def test_ambiguous_markdown_structure_alone_causes_a_warning(text, warnings):
    found = split(text, 200 if warnings else 8192).warnings
    assert all(any(warning in each for each in found) for warning in warnings)
    assert bool(found) == bool(warnings)


HOSTILE = ["a", "\n", "#", "#\n", "## x\n", "## x\ny\n", "- a\n", "> ", "[", ". ", "|1|2|\n", "```\n", "中。", "👩‍👩‍👧"]


def windows(text, max_tokens):
    return split_windows(text, tokens=CL100K, max_tokens=max_tokens, overlap_tokens=max_tokens // 10)


def whole(text, max_tokens):
    return split(text, max_tokens).chunks


@pytest.mark.slow
@pytest.mark.parametrize("chunks_of", [whole, windows])
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_texts_are_split(chunks_of, piece):
    text = piece * (40_000 // len(piece))
    chunks = chunks_of(text, 512)
    assert all(CL100K.count(chunk.text) <= 512 for chunk in chunks)
    assert bool(chunks) == bool(text.strip())


@pytest.mark.parametrize("chunks_of", [whole, windows])
def test_indentation_longer_than_a_chunk_is_left_out_and_deep_lists_are_split(chunks_of):
    for blank in (" ", "\t", "\u2003"):
        assert [chunk.text.strip() for chunk in chunks_of("a\n" + blank * 20_000 + "b", 64)] == ["a", "b"]
    deep = "\n".join("  " * depth + "- item" for depth in range(150))
    assert all(CL100K.count(chunk.text) <= 512 for chunk in chunks_of(deep, 512))


def test_other_levels_of_headings_can_be_split_at():
    text = "".join(f"# {name}\n\n#### {name}1\n\n{'word ' * 60}\n\n#### {name}2\n\n{'word ' * 60}\n\n" for name in "AB")
    found = split_whole(text, tokens=CL100K, max_tokens=100, levels=(1, 4))
    assert [chunk.section for chunk in found.chunks] == ["A > A1", "A > A2", "B > B1", "B > B2"]
