"""Chunks are joined to the text that they were cut from."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.storage.joined_text import GAP, LEAST_OVERLAP, MOST_OVERLAP, joined_text

TABLE = "| name | price |\n|---|---:|\n"


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        ([], ""),
        (["one"], "one"),
        (["one", "two"], "one\n\ntwo"),
        (["the same words", "the same words"], "the same words\n\nthe same words"),
        (
            ["It ends with one whole sentence.", "one whole sentence. And it goes on."],
            "It ends with one whole sentence.\n\none whole sentence. And it goes on.",
        ),
        (
            ["It ends with one whole, longer sentence.", "one whole, longer sentence. And it goes on."],
            "It ends with one whole, longer sentence. And it goes on.",
        ),
        # Inside of a word it is no overlap.
        (["schoolmastersandpupilsinclass", "mastersandpupilsinclass again"], None),
        ([f"{TABLE}| a | 1 |", f"{TABLE}| b | 2 |"], f"{TABLE}| a | 1 |\n| b | 2 |"),
        (
            [f"Prices:\n\n{TABLE}| a | 1 |", f"{TABLE}| b | 2 |\n\nEnd."],
            f"Prices:\n\n{TABLE}| a | 1 |\n| b | 2 |\n\nEnd.",
        ),
        # Another table with the same header, since a paragraph stands between.
        ([f"{TABLE}| a | 1 |\n\nThen:", f"{TABLE}| b | 2 |"], None),
        (["---", "---\nmore"], None),
    ],
)
def test_neighbours_are_joined(texts, joined):
    assert joined_text(texts, range(1, len(texts) + 1)) == ("\n\n".join(texts) if joined is None else joined)


def test_a_gap_is_shown_and_nothing_is_cut_across_it():
    text = "a text that is as long as an overlap must be"
    assert joined_text([text, text, text], [3, 5, 6]) == f"{text}\n\n{GAP}\n\n{text}"


@given(st.text("ab \n", min_size=1, max_size=200), st.lists(st.integers(0, 200), max_size=6), st.integers(0, 60))
def test_windows_of_a_text_are_joined_to_it_or_repeat_what_is_short(text, cuts, overlap):
    bounds = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    windows = [text[max(0, start - overlap) : end] for start, end in pairwise(bounds)]
    joined = joined_text(windows, range(len(windows)))
    longest = max((len(each) for each in windows), default=0)
    assert len(joined) <= sum(len(each) + 2 for each in windows)
    assert joined.startswith(windows[0])
    assert longest <= len(joined)
    if overlap == 0:
        kept = [letter for letter in joined if not letter.isspace()]
        assert len(kept) <= len([letter for letter in text if not letter.isspace()])


def test_words_of_one_text_come_once():
    words = [f"word{number}" for number in range(400)]
    windows = [" ".join(words[start : start + 60]) for start in range(0, 400, 40)]
    assert joined_text(windows, range(1, 11)) == " ".join(words)


def test_hostile_chunks_take_linear_work():
    for text in ("a" * 50_000, "ab" * 25_000, " " * 50_000, "a" * 49_999 + "b"):
        joined = joined_text([text, text], [1, 2])
        assert len(joined) >= 2 * len(text) - MOST_OVERLAP
    assert LEAST_OVERLAP < MOST_OVERLAP
