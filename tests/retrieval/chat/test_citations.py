"""Which passages an answer cites, and whether there are such passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.chat.answering import citations, cited_numbers
from schemas.contracts.text_documents import SimilarChunk


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("No number at all.", []),
        ("Thirty days [1].", [1]),
        ("Thirty days[2], encrypted [1] [2].", [2, 1]),
        ("Both [1, 3], [4;2] and [1][5].", [1, 3, 4, 2, 5]),
        ("Many [1-3], [5–6] and [8, 10-11].", [1, 2, 3, 5, 6, 8, 10, 11]),
        ("Odd [3-1], [0], [ 7 ].", [3, 1, 0, 7]),
        ("**[1]** _[2]_ <b>[3]</b>\n\n- [4]\n\n> [5]\n\n# [6]\n\n| a | [7] |", [1, 2, 3, 4, 5, 6, 7]),
        ("It is so [1].\n\n[1]: Handbook\n[2]: Manual", [1, 2]),
        ("See [[8]].", [8]),
        ("`array[0]` and ``x[`1]`` and [2]", [2]),
        ("```py\na = array[0]\n```\n[2]", [2]),
        ("~~~\n[1]", []),
        ("Text:\n\n    array[0]\n\n[2]", [2]),
        ("An unfinished `array[1]", [1]),
        ("[1](https://example.com) [see [2]](/x) ![3](/y.png)", []),
        ("[1] (page 3)", [1]),
        ("A note[^1] and \\[2] and the year [2024] and [1.5] and [-1] and [a1].", []),
        ("\\[ x_[1] \\]", [1]),
        ("[\u0661] \uff3b1\uff3d (1)", []),
    ],
)
def test_numbers_in_brackets_are_citations_where_markdown_has_text(answer, numbers):
    assert cited_numbers(answer) == numbers


NUMBERS = st.lists(st.integers(0, 999), max_size=20)
PLAIN = st.text(st.sampled_from("ab .,\n"), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 999), PLAIN), max_size=20))
def test_each_number_is_told_once_in_the_order_of_first_mention(cited):
    answer = "".join(f"x{text.strip()} [{number}]" for number, text in cited)
    assert cited_numbers(answer) == list(dict.fromkeys(number for number, _ in cited))


@given(NUMBERS.filter(bool), st.integers(0, 50))
def test_a_list_is_its_numbers_and_a_range_is_all_of_its(numbers, more):
    assert cited_numbers(f"So [{', '.join(map(str, numbers))}].") == list(dict.fromkeys(numbers))
    first, last = numbers[0], min(numbers[0] + more, 999)
    assert cited_numbers(f"So [{first}-{last}].") == list(range(first, last + 1))


@given(NUMBERS)
def test_nothing_in_code_is_cited(numbers):
    inside = "".join(f"x[{number}]" for number in numbers)
    assert cited_numbers(f"See `{inside}`.\n\n```\n{inside}\n```\n") == []


@given(st.text(st.sampled_from("[]()`~\\1,- \n*!^<>"), max_size=80))
def test_any_text_has_citations_of_three_digits_at_most(answer):
    numbers = cited_numbers(answer)
    assert len(numbers) == len(set(numbers))
    assert all(0 <= number <= 999 for number in numbers)


def passage(number):
    return SimilarChunk(f"Text {number}", 0.9, "d", "c", f"chunk-{number}", "s", "p", "t", 0, [], {})


@given(NUMBERS, st.integers(0, 20))
def test_a_citation_is_valid_when_there_is_a_passage_of_that_number(numbers, count):
    passages = [passage(number) for number in range(1, count + 1)]
    found = citations(" ".join(f"[{number}]" for number in numbers), passages)
    assert {each.number for each in found} == set(numbers)
    for each in found:
        expected = f"chunk-{each.number}" if 1 <= each.number <= count else None
        assert (each.passage and each.passage.chunk_id) == expected


@pytest.mark.slow
def test_time_grows_with_the_answer_alone():
    for answer in ("[1" * 20_000, "[" * 20_000 + "1]", "`" * 20_000 + "[1]", "[1-" * 20_000, "[1, " * 20_000):
        assert len(cited_numbers(answer)) <= 1
