"""What a reader takes for one character is never cut in two."""

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunking import Syntax, split_markdown, split_text, split_whole, split_windows
from retrieval.chunking.graphemes import Graphemes
from retrieval.chunking.tokens import token_counter

CL100K = token_counter()
SAMPLES = [
    *("a", "é", "e\u0301", "漢", "한", "\u1112\u1161\u11ab", "क्षि", "กำ"),
    *("👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "👍🏽", "\u0600", "\r", "\n", " "),
]
PIECES = ["e\u0301", "\u1112\u1161\u11ab", "👩‍👧", "🇩🇪", "👍🏽", "กำ", "கி"]

SPLITS = {
    "sections": lambda text: split_text(text, max_tokens=40),
    "markdown": lambda text: split_markdown(text, max_tokens=40),
    "windows": lambda text: split_windows(text, tokens=CL100K, max_tokens=48, overlap_tokens=12),
    "code": lambda text: split_windows(text, tokens=CL100K, max_tokens=48, overlap_tokens=0, syntax=Syntax.CODE),
    "whole": lambda text: split_whole(text, tokens=CL100K, max_tokens=48).chunks,
}


@pytest.mark.slow
@given(st.lists(st.sampled_from([*SAMPLES, "🇩", "\u200d", "\u0301", "\u1112"]), max_size=40).map("".join))
@settings(max_examples=150, deadline=None)
def test_starts_are_those_of_the_standard(text):
    starts = {0, len(text), *(match.start() for match in regex.finditer(r"\X", text))}
    graphemes = Graphemes(text)
    assert {place for place in range(len(text) + 1) if graphemes.begin_at(place)} == starts
    assert all(graphemes.start(place) == max(s for s in starts if s <= place) for place in range(len(text)))


@pytest.mark.parametrize("piece", PIECES)
def test_starts_are_found_far_into_a_long_run(piece):
    text = "x" + piece * 400
    starts = {0, *range(1, len(text) + 1, len(piece))}
    graphemes = Graphemes(text)
    assert {place for place in range(len(text) + 1) if graphemes.begin_at(place)} == starts


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("piece", PIECES)
def test_an_endless_word_is_cut_between_them(split, piece):
    text = "x" + piece * 300
    chunks = SPLITS[split](text)
    assert len(chunks) > 3
    for chunk in chunks:
        assert regex.fullmatch(f"x?(?:{piece})+", chunk.text), chunk
    if split != "windows":
        assert "".join(chunk.text for chunk in chunks) == text


@given(st.lists(st.sampled_from(SAMPLES), max_size=120).map("".join), st.sampled_from(sorted(SPLITS)))
@settings(max_examples=120, deadline=None)
def test_no_chunk_begins_or_ends_within_one(text, split):
    text = text.replace("\r", "\n")
    clusters = set(regex.findall(r"\X", text))
    clusters |= {cluster.rstrip() for cluster in clusters}  # white space at the end of a chunk goes
    for chunk in SPLITS[split](text):
        assert set(regex.findall(r"\X", chunk.text)) <= clusters, chunk


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_a_long_run_of_them_is_split_in_linear_time_and_one_that_is_longer_than_a_chunk_is_cut(split):
    for piece in ("🇩🇪", "👩‍👩‍👧", "\u1112\u1161\u11ab"):
        assert len(SPLITS[split](piece * 4_000)) > 50
    assert len(SPLITS[split]("a" + "\u0301" * 2_000)) > 5
