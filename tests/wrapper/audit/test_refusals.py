"""Lines of refused requests are bounded, and none of the requests is lost from the count."""

import pytest

from schemas.access.callers import Caller, Kind, Scope
from tests.wrapper.audit.conftest import entries, lines_of
from tests.wrapper.clock import Clock
from wrapper.audit.noted import Noted
from wrapper.audit.recording import Asked, Recorder
from wrapper.audit.refusals import LINES, MINUTE_SECONDS

READ = Asked("GET", "/collections/{name}", Scope.READ)
WRITE = Asked("POST", "/collections", Scope.MANAGE)


@pytest.fixture
def seconds():
    return Clock(1_000.0)


@pytest.fixture
def recorder(open_log, seconds):
    return Recorder(open_log(), with_reads=False, may_store=lambda: True, clock=seconds)


def key(key_id):
    return Caller(key_id, "a key", Kind.KEY, frozenset({Scope.READ}), f"key:{key_id}")


def told(folder):
    return [(line["key_id"], line["status"], line.get("repeated")) for line in lines_of(folder)]


def test_unknown_callers_have_so_many_lines_together_and_then_a_count(recorder, folder, seconds):
    for number in range(LINES + 40):
        noted = Noted(names=["é" * 630], key_id=f"made{number:04}" if number % 2 else None)
        recorder.record((READ, WRITE)[number % 2], noted, None, (401, 421)[number % 2])
    assert len(lines_of(folder)) == LINES
    assert {line["collection"] for line in lines_of(folder)} == {None}
    seconds.now += MINUTE_SECONDS
    recorder.tell_refusals()
    assert told(folder)[LINES:] == [(f"made{LINES + 39:04}", 421, 40)]
    assert entries(folder)[0][0].event.repeated == 40
    seconds.now += MINUTE_SECONDS
    recorder.tell_refusals()
    recorder.record(READ, Noted(), None, 401)
    assert told(folder)[LINES + 1 :] == [(None, 401, None)]


def test_what_was_let_through_has_a_line_each(recorder, folder):
    for status in [201] * LINES + [403, 400] * LINES:
        noted = Noted()
        recorder.check(WRITE, noted)
        recorder.record(WRITE, noted, key("writes00"), status)
    assert [line["status"] for line in lines_of(folder)] == [201] * LINES + [403, 400] * LINES


@pytest.mark.parametrize(("of_tool", "of_answer", "told_of"), [(None, 200, 200), (404, 200, 404), (400, 507, 507)])
def test_a_line_has_the_status_of_the_tool_unless_the_answer_is_an_error_itself(
    recorder, folder, of_tool, of_answer, told_of
):
    recorder.record(WRITE, Noted(status=of_tool), key("writes00"), of_answer)
    assert told(folder) == [("writes00", told_of, None)]


def test_a_tool_that_is_denied_is_bounded_as_a_request_that_is(recorder, folder):
    for _ in range(LINES + 5):
        noted = Noted(status=403)
        assert recorder.is_recorded(READ, noted, 200)
        recorder.record(READ, noted, key("hammers0"), 200)
    assert told(folder) == [("hammers0", 403, None)] * LINES
