"""Lines are appended whole, files rotate by size and day, and what others did to the folder is noticed."""

import os
import stat
from datetime import timedelta

import pytest

from schemas.errors import AuditUnwritableError
from tests.wrapper.audit.conftest import event, lines_of
from wrapper.audit.file_names import files_in


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
