import gc
import weakref

import pytest

from wrapper import freed_memory


class Node:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.mark.parametrize(
    ("request_", "is_large"),
    [
        ({}, False),
        ({"CONTENT_LENGTH": ""}, False),
        ({"CONTENT_LENGTH": "131071"}, False),
        ({"CONTENT_LENGTH": "131072"}, True),
        ({"CONTENT_LENGTH": "100", "HTTP_CONTENT_ENCODING": "gzip"}, True),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, True),
    ],
)
def test_what_requests_that_may_be_large_leave_behind_is_given_back_once(monkeypatch, request_, is_large):
    trimmed = []
    monkeypatch.setattr(freed_memory, "trim", lambda: lambda: trimmed.append(1))
    gc.disable()
    try:
        left = weakref.ref(Node())
        freed_memory.note_answered(request_)
        freed_memory.give_back()
        freed_memory.give_back()
        assert ((left() is None), len(trimmed)) == (is_large, is_large)
    finally:
        gc.enable()


def test_giving_back_what_is_not_held_does_no_harm():
    freed_memory.trim()()
