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
def disk():
    """`disk["has_room"]` says whether more than the floor is free."""
    return {"has_room": True}


@pytest.fixture
def recorder(open_log, seconds, disk):
    return Recorder(open_log(), with_reads=False, may_store=lambda: disk["has_room"], clock=seconds)


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


def test_the_count_comes_before_the_next_line_or_at_the_end(recorder, folder, seconds):
    for _ in range(LINES + 2):
        recorder.record(READ, Noted(), None, 401)
    seconds.now += MINUTE_SECONDS
    for _ in range(LINES + 3):
        recorder.record(READ, Noted(), None, 401)
    recorder.close()
    assert [each[2] for each in told(folder)] == [None] * LINES + [2] + [None] * LINES + [3]


def test_every_key_has_a_bound_of_its_own_also_one_that_has_ended(recorder, folder):
    ended = Noted(names=["handbook"], key_id="ended000", has_ended_key=True)
    for _ in range(LINES + 5):
        recorder.record(READ, Noted(), None, 401)
        recorder.record(READ, Noted(names=["handbook"]), key("hammers0"), 429)
    recorder.record(READ, Noted(names=["handbook"]), key("quiet000"), 403)
    recorder.record(READ, ended, None, 401)
    assert [(line["key_id"], line["collection"]) for line in lines_of(folder)[-2:]] == [
        ("quiet000", "handbook"),
        ("ended000", "handbook"),
    ]
    recorder.close()
    assert told(folder)[-2:] == [(None, 401, 5), ("hammers0", 429, 5)]
    assert len(lines_of(folder)) == 2 * LINES + 4


def test_what_was_let_through_has_a_line_each(recorder, folder):
    for status in [201] * LINES + [403, 400] * LINES:
        noted = Noted()
        recorder.check(WRITE, noted)
        recorder.record(WRITE, noted, key("writes00"), status)
    assert [line["status"] for line in lines_of(folder)] == [201] * LINES + [403, 400] * LINES


def test_below_the_floor_unknown_callers_are_only_counted(recorder, folder, seconds, disk):
    disk["has_room"] = False
    for _ in range(3):
        recorder.record(WRITE, Noted(), None, 401)
    recorder.record(WRITE, Noted(), key("known000"), 403)
    seconds.now += MINUTE_SECONDS
    recorder.record(WRITE, Noted(), None, 401)
    assert told(folder) == [("known000", 403, None)]
    disk["has_room"] = True
    seconds.now += MINUTE_SECONDS
    recorder.tell_refusals()
    assert told(folder)[1:] == [(None, 401, 4)]


def test_a_count_that_cannot_be_written_is_kept(recorder, folder, seconds, tmp_path):
    for _ in range(LINES + 2):
        recorder.record(READ, Noted(), key("hammers0"), 429)
    recorder.audit_log.close()
    folder.rename(tmp_path / "kept")
    folder.write_text("in the way")
    seconds.now += MINUTE_SECONDS
    recorder.tell_refusals()
    folder.unlink()
    seconds.now += MINUTE_SECONDS
    recorder.tell_refusals()
    assert told(folder) == [("hammers0", 429, 2)]


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
