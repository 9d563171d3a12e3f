"""The contract *documents*, §6: 512 to 1024 tokens, overlap of 50 to 100, "sentence-aware splitting (preserve paragraph
boundaries)"."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import Chunk, Syntax, split_windows
from retrieval.chunking.tokens import TokenCounter, token_counter
from tests.retrieval.chunking.texts import inked_lines, markdown, unique_prose

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
    chunks = split_windows(text, tokens=CL100K, max_tokens=max_tokens, overlap_tokens=0, syntax=syntax)
    assert all(0 < CL100K.count(chunk.text) <= max_tokens for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.removeprefix("\ufeff").split())


@pytest.mark.slow
@given(markdown)
@settings(max_examples=40, deadline=None)
def test_start_line_is_where_the_chunk_starts(text):
    source = text.split("\n")
    for chunk in split_windows(text, tokens=CL100K, max_tokens=40, overlap_tokens=10):
        assert chunk.text.split("\n")[0].rstrip() in source[chunk.start_line - 1]


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
    chunks = split_windows(code, tokens=CL100K, max_tokens=256, overlap_tokens=25, syntax=Syntax.CODE)
    assert {chunk.section for chunk in chunks} == {""}
    lines = inked_lines(code)
    assert all(line in lines for chunk in chunks for line in inked_lines(chunk.text))
    first, second = split_windows("a" + "\n" * 20_000 + "b", tokens=CL100K, max_tokens=64, overlap_tokens=16)
    assert (first.text, second.text) == ("a", "b")
    assert split_windows(" \n\t\n", tokens=CL100K) == []


@pytest.mark.parametrize(("max_tokens", "overlap_tokens"), [(15, 0), (100, 26), (100, -1)])
def test_limits_that_make_no_sense_are_refused(max_tokens, overlap_tokens):
    with pytest.raises(ValueError, match="at least 16"):
        split_windows("text", tokens=CL100K, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
