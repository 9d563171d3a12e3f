"""Lines and server-sent events are the same however their bytes arrive."""

import re

from hypothesis import given
from hypothesis import strategies as st

from providers.outbound.answer_streams import event_data, lines, not_blank

TEXT = st.lists(st.sampled_from([b"a", "ü".encode(), b"\n", b"\r", b"\r\n", b"data: ", b":", b" "]), max_size=30)


def cut(content, places):
    begins = sorted({0, *(place % (len(content) + 1) for place in places)})
    return [content[begin:end] for begin, end in zip(begins, [*begins[1:], len(content)], strict=True)]


@given(TEXT, st.lists(st.integers(0, 1_000), max_size=10))
def test_lines_do_not_depend_on_where_the_pieces_end(parts, places):
    content = b"".join(parts)
    *whole, last = re.split(rb"\r\n|\r|\n", content)
    assert list(lines(cut(content, places))) == ([*whole, last] if last else whole)


def test_a_line_in_a_thousand_pieces_is_one():
    assert list(lines(b"x" for _ in range(1_000))) == [b"x" * 1_000]


def test_an_event_is_the_data_of_its_lines():
    said = b": hello\ndata: one\n\ndata:two\ndata:  three\nid: 7\n\n\ndata\n\nevent: end\n\ndata: four".split(b"\n")
    assert list(event_data(said)) == [b"one", b"two\n three", b"four"]


def test_blank_lines_hold_no_value():
    assert list(not_blank([b"", b"{}", b" \t", b"1"])) == [b"{}", b"1"]
