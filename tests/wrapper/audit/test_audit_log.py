"""Lines are appended whole, files rotate by size and day, and what others did to the folder is noticed; whatever is written
is read back, from the newest line on, in bounded memory."""

import os
import stat
import tempfile
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import AuditUnwritableError
from schemas.storage.audit import AuditEvent
from tests.wrapper.audit.conftest import entries, event, lines_of
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in
from wrapper.audit.lines import MAX_CHARACTERS, MAX_LINE_BYTES, from_line, to_line


def names(folder):
    return [str(each) for each in files_in(folder)]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_line_has_the_fields_and_the_time_of_its_writing(open_log, folder):
    open_log().append(
        event(3, key_id="ab12cd34", scope="write", collection="team-a", address="192.0.2.7", request_id="r1"),
        checked=False,
    )
    assert lines_of(folder) == [
        {
            "time": "2026-11-23T12:00:00.000Z",
            "key_id": "ab12cd34",
            "user": None,
            "scope": "write",
            "method": "POST",
            "route": "/collections",
            "collection": "team-a",
            "count": 3,
            "status": 201,
            "address": "192.0.2.7",
            "request_id": "r1",
        }
    ]


def test_nobody_else_may_read_the_log(open_log, folder):
    before = os.umask(0)
    try:
        open_log().append(event(), checked=False)
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert {mode(each) for each in folder.iterdir()} == {0o600}


def test_a_full_file_is_finished_and_the_next_one_begun(open_log, folder):
    log = open_log(max_bytes=1_000, requests_at_once=64)
    for number in range(20):
        log.append(event(number), checked=False)
    found = names(folder)
    assert found == [f"audit-2026-11-23-{number:04}.jsonl" for number in range(1, len(found) + 1)]
    assert len(found) > 3
    assert [line["count"] for line in lines_of(folder)] == list(range(20))
    assert [mode(folder / each) for each in found] == [0o400] * (len(found) - 1) + [0o600]
    finished = [(folder / each).stat() for each in found[:-1]]
    assert all(1_000 <= each.st_size < 1_300 for each in finished)
    assert all(each.st_blocks * 512 <= 8192 for each in finished), "a finished file holds room behind its end"


def test_a_new_day_begins_a_new_file_and_a_clock_set_back_does_not(open_log, folder, clock):
    log = open_log()
    for step in ({}, {"hours": 12}, {"hours": -13}, {"days": 2}):
        clock.now += timedelta(**step)
        log.append(event(), checked=False)
    assert names(folder) == [f"audit-2026-11-{day}-0001.jsonl" for day in (23, 24, 25)]
    assert len(lines_of(folder)) == 4


def test_a_log_whose_files_were_taken_away_goes_on(open_log, folder):
    log = open_log()
    log.append(event(1), checked=False)
    (folder / names(folder)[0]).rename(folder / "elsewhere")
    log.append(event(2), checked=False)
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    log.check()
    log.append(event(3), checked=True)
    assert [line["count"] for line in lines_of(folder)] == [3]


def test_the_newest_file_is_not_written_to_when_it_is_finished(open_log, folder):
    open_log().append(event(1), checked=False)
    (folder / names(folder)[0]).chmod(0o400)
    open_log().append(event(2), checked=False)
    assert len(names(folder)) == 2
    assert [line["count"] for line in lines_of(folder)] == [1, 2]


def test_a_rotation_that_was_killed_half_way_is_completed(open_log, folder):
    stale = open_log(max_bytes=1_000)
    stale.append(event(1), checked=False)
    (folder / "audit-2026-11-23-0002.jsonl").touch(mode=0o600)
    open_log().append(event(2), checked=False)
    for number in range(3, 12):
        stale.append(event(number), checked=False)
    assert sorted(line["count"] for line in lines_of(folder)) == list(range(1, 12))
    assert mode(folder / "audit-2026-11-23-0001.jsonl") == 0o400


def test_a_folder_that_cannot_be_made_is_told_without_its_path(tmp_path, open_log, folder):
    folder.write_text("in the way")
    for attempt in (lambda log: log.check(), lambda log: log.append(event(), checked=False)):
        with pytest.raises(AuditUnwritableError) as refused:
            attempt(open_log())
        assert refused.value.message == "The audit log cannot be written to: File exists"


TEXT = st.none() | st.text(max_size=40) | st.text(min_size=100, max_size=1_500)
EVENTS = st.builds(
    AuditEvent,
    method=st.text(max_size=10),
    route=st.text(max_size=200),
    status=st.integers(100, 599),
    **dict.fromkeys(("key_id", "user", "collection", "address", "request_id", "tool", "subject"), TEXT),
    scope=st.none() | st.sampled_from(["read", "write", "admin"]),
    count=st.none() | st.integers(0, 2**53),
    cut=st.booleans(),
    repeated=st.none() | st.integers(1, 2**53),
)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def everywhere(text):
    """An event with the text in each of its places."""
    places = ("key_id", "user", "collection", "address", "request_id", "tool", "subject")
    return AuditEvent("POST", "/collections", 201, **dict.fromkeys(places, text))


@example(everywhere('x"}\n{"time":"2026-11-23T12:00:00.000Z","method":"GET","route":"/forged","status":200}\n'))
@example(everywhere("\r\n\x00\x1b[2J\x9b31m\u2028\u2029\u202e\x85"))
@example(everywhere('\\"\\u000a'))
@example(everywhere("\ud800"))
@given(EVENTS)
def test_every_event_is_one_bounded_line_of_printable_ascii(given_event):
    line = to_line(given_event, NOON)
    assert len(line) <= MAX_LINE_BYTES
    assert line.endswith(b"\n")
    assert all(0x20 <= byte < 0x7F or byte == 0x7F for byte in line[:-1])
    entry = from_line(line)
    assert entry.time == NOON
    assert (entry.event.status, entry.event.count, entry.event.cut, entry.event.repeated) == (
        given_event.status,
        given_event.count,
        given_event.cut,
        given_event.repeated,
    )


@given(
    st.builds(
        AuditEvent,
        method=st.just("GET"),
        route=st.just("/"),
        status=st.just(200),
        user=st.text(st.characters(exclude_categories=["Cs"]), max_size=32),
        subject=st.text(st.characters(exclude_categories=["Cs"]), max_size=32),
        collection=st.text(st.characters(exclude_categories=["Cs"]), max_size=32),
    )
)
def test_short_texts_come_back_as_they_were(given_event):
    assert from_line(to_line(given_event, NOON)).event == given_event


def test_a_longer_text_is_cut_and_shows_it(open_log, folder):
    open_log().append(event(request_id="r" * 5_000), checked=False)
    assert lines_of(folder)[0]["request_id"] == "r" * (MAX_CHARACTERS - 3) + "..."


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["k1", "k2", None]),
            st.sampled_from(["a", "b", "a,b", None]),
            st.integers(0, 40),
            st.sampled_from([b"", b"torn", b'{"time":1}\n', b"\x00" * 9, b"z" * 5_000]),
        ),
        max_size=25,
    ),
    st.integers(0, 200),
    st.sampled_from(["k1", None]),
    st.sampled_from(["a", None]),
)
def test_what_fits_is_read_back_newest_first(steps, since_hours, key, collection):
    """The model: a list of what was written, with the harm that was done to the file in between."""
    written, harmed = [], 0
    now = NOON
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        log = AuditLog(folder, max_bytes=900, requests_at_once=1, clock=lambda: now)
        for number, (key_id, name, hours, harm) in enumerate(steps):
            now += timedelta(hours=hours)
            who = {("key_id", "user")[number % 2]: key_id}  # a user is found like a key
            log.append(event(number, collection=name, **who), checked=False)
            written.append((now, number, key_id, name))
            if harm:
                harmed += 1
                with (folder / str(files_in(folder)[-1])).open("ab") as file:
                    file.write(harm)
        log.close()
        found, skipped = entries(folder)
        assert [each.event.count for each in found] == [number for _, number, *_ in reversed(written)]
        assert skipped == harmed
        since = NOON + timedelta(hours=since_hours)
        found, _ = entries(folder, since=since, key=key, collection=collection)
        assert [each.event.count for each in found] == [
            number
            for time, number, key_id, name in reversed(written)
            if time >= since
            and (key is None or key_id == key)
            and (collection is None or collection in (name or "").split(","))
        ]


def test_reading_takes_bounded_memory_even_of_a_file_without_lines(folder, open_log):
    open_log().append(event(1), checked=False)
    with (folder / str(files_in(folder)[0])).open("ab") as file:
        file.write(b"x" * (8 << 20) + b"\n")
    open_log().append(event(2), checked=False)
    tracemalloc.start()
    try:
        found, skipped = entries(folder)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ([each.event.count for each in found], skipped) == ([2, 1], 1)
    assert most < 1 << 20


@pytest.mark.parametrize("line", [b"[]", b"1", b"{}", b'{"time":"2026-11-23","method":"GET","route":"/","status":200}'])
def test_what_is_no_line_of_this_log_is_refused(line):
    assert isinstance(orjson.loads(line), dict | list | int)
    with pytest.raises(ValueError):  # noqa: PT011
        from_line(line)
