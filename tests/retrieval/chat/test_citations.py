"""Which passages an answer cites."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.chat.base import ChatAnswer
from retrieval.chat.citations import cited_numbers, plain, plainly


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("No number at all.", []),
        ("Thirty days [1].", [1]),
        ("Thirty days[2], encrypted [1] [2].", [2, 1]),
        ("Both [1, 3], [4;2] and [1][5].", [1, 3, 4, 2, 5]),
        ("Many [1-3], [5–6] and [8, 10-11].", [1, 2, 3, 5, 6, 8, 10, 11]),
        ("Odd [3-1], [0], [ 7 ], [998-999], [7], [7-8].", [3, 1, 0, 7, 998, 999, 8]),
        ("**[1]** _[2]_ <b>[3]</b>\n\n- [4]\n\n> [5]\n\n# [6]\n\n| a | [7] |", [1, 2, 3, 4, 5, 6, 7]),
        ("It is so [1].\n\n[1]: Handbook\n[2]: Manual", [1, 2]),
        ("Both [1，2] and [3、4].", [1, 2, 3, 4]),
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
        ("[\u0661] (1)", []),
    ],
)
def test_numbers_in_brackets_are_citations_where_markdown_has_text(answer, numbers):
    assert cited_numbers(answer) == numbers


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("So it is【1】.", "So it is[1]."),
        ("【1†source】【2†L1-L9】 and 【1, 3】、【2-3】", "[1][2] and [1, 3]、[2-3]"),
        ("［12］ 【1，2】", "[12] [1, 2]"),
        ("【重要】【】 【4:0†source】 【1", "【重要】【】 【4:0†source】 【1"),
    ],
)
def test_wide_citations_are_written_as_others_also_where_they_come_in_parts(answer, said):
    assert plain(answer) == said
    *pieces, whole = plainly(iter([*answer, ChatAnswer(answer, "m")]))
    assert ("".join(pieces), whole.content) == (said, said)


@given(st.text(st.sampled_from("[]()`~\\1,- \n*!^<>"), max_size=80))
def test_any_text_has_citations_of_three_digits_at_most(answer):
    numbers = cited_numbers(answer)
    assert len(numbers) == len(set(numbers))
    assert all(0 <= number <= 999 for number in numbers)


@pytest.mark.slow
def test_time_grows_with_the_answer_alone():
    for answer in ("[1" * 20_000, "[" * 20_000 + "1]", "`" * 20_000 + "[1]", "[1-" * 20_000, "[1, " * 20_000):
        assert len(cited_numbers(answer)) <= 1
