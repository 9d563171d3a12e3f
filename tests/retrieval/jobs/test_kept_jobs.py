"""Jobs in the catalogue's database, and the files of their uploads on the disk, with their names."""

import hashlib
import json
import os
from dataclasses import replace

import pytest

from retrieval.jobs import job_rows
from retrieval.jobs import spool as spooling
from retrieval.jobs.spool import Spool, checked_name, shown_name
from retrieval.jobs.stored_jobs import Limits, StoredJobs
from schemas.access.owners import Asker
from schemas.contracts.jobs import (
    DueFile,
    JobFile,
    JobNotFoundError,
    JobsFullError,
    OwnJobsFullError,
    RefusedFileError,
    SpooledFile,
    Wanted,
)
from schemas.errors import DiskFloorError, InvalidInputError
from wrapper.backups.files import home_of

WANTED = Wanted("handbook", ("ops", "ü"), {"team": "ops", "depth": {"n": 1}}, "skip")


@pytest.fixture
def open_jobs(catalogs, clock):
    """`open_jobs(home=…, limits=…)` opens the test's one table of jobs, each time as another process would."""
    return lambda home="here", limits=None: StoredJobs(catalogs(), home, limits or Limits(), clock)


def add(jobs, job_id, *names, owner="", size=10):
    files = [SpooledFile(number, name, "text/plain", size, "0" * 64) for number, name in enumerate(names or ["a.txt"])]
    jobs.create(job_id, WANTED, files, asker=Asker(owner))


def test_a_job_is_kept_as_it_was_given(open_jobs):
    add(open_jobs(), "one", "a.txt", "docs/ü.md")
    job = open_jobs().one("one", asker=Asker())
    assert (job.id, job.status, job.created_at, job.finished_at) == ("one", "queued", "2026-09-21T14:13:20.000Z", None)
    assert job.wanted == WANTED
    names = ("a.txt", "docs/ü.md")
    assert job.files == tuple(JobFile(at, name, "text/plain", 10, "queued", name) for at, name in enumerate(names))


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_what_earlier_releases_said_of_kept_files_gets_columns_of_its_own(catalogs, open_jobs):
    before = catalogs()
    before.open_part("jobs", job_rows.STEPS[:4])
    told = {"file_id": "file-1", "collection_id": "c", "source": "file-1/a.md", "metadata": {"v": 1}, "max_tokens": 9}

    def fill(transaction):
        transaction.run(
            "INSERT INTO jobs VALUES ('j', 0, '', 'here', '{\"collection\": \"docs\"}', 'queued', 1, NULL, '')"
        )
        for number, attachment, file_id in ((0, None, None), (1, json.dumps(told), "file-1")):
            transaction.run(
                "INSERT INTO job_files (job_id, number, name, media_type, size_bytes, status, chunks_done, warnings, "
                "begun, attachment, file_id, collection_id) VALUES ('j', ?, 'a.md', '', 1, 'queued', 0, '[]', 0, ?, ?, 'c')",
                (number, attachment, file_id),
            )

    before.commit(fill)
    for _ in range(2):
        uploaded, kept = open_jobs().one("j", asker=Asker()).files
        assert (uploaded.source, uploaded.file_id, uploaded.metadata, uploaded.windows) == ("a.md", None, {}, None)
        assert (kept.source, kept.file_id, kept.metadata, kept.windows) == ("file-1/a.md", "file-1", {"v": 1}, (9, 0))


def take(jobs):
    """Begin with the first file that is due, and return its job as it is then."""
    [due, *_] = jobs.due()
    jobs.begin(due)
    return jobs.one(due.job_id, asker=Asker())


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_the_next_file_of_each_job_is_due_unless_it_is_under_way_put_aside_or_behind_an_earlier_one_of_its_document(
    open_jobs, clock
):
    jobs = open_jobs()
    add(jobs, "first", "a.txt", "b.txt")
    add(jobs, "second", "b.txt", "c.txt", owner="ada")

    def due(*under_way):
        return [(each.job_id, each.number) for each in open_jobs().due(under_way)]

    assert jobs.due()[1] == DueFile("second", 1, "ada", "handbook")
    assert due() == [("first", 0), ("second", 1)]
    assert due(("first", 0)) == [("first", 1), ("second", 1)]
    job, begun = jobs.begin(jobs.due()[0])
    assert ([each.name for each in job.files], job.status, begun) == (["a.txt"], "running", 1)
    assert due() == [("first", 1), ("second", 1)], "as after a kill, perhaps by the other one"
    [again] = [each for each in jobs.due([("first", 1)]) if each.is_suspect]
    assert jobs.begin(again)[1] == 2
    jobs.put_aside("first", replace(job.files[0], tries=1, code="c", message="m"), seconds=5)
    assert due() == [("first", 1), ("second", 1)]
    clock.now += 5
    assert due(("first", 1)) == [("second", 1), ("first", 0)], "what was tried least comes first"
    again = jobs.due([("first", 1)])[1]
    [file], begun = jobs.begin(again)[0].files, jobs.begin(again)[1]
    assert (file.number, file.status, file.tries, file.code, begun) == (0, "reading", 1, "c", 2)
    for number in (0, 1):
        jobs.tell("first", replace(jobs.one("first", asker=Asker()).files[number], status="done"))
    assert due() == [("second", 0)]
    assert jobs.one("first", asker=Asker()).status == "done", "its process was killed before it said so"


def test_a_job_stays_with_the_directory_that_has_its_files_and_a_discarded_one_was_never_there(open_jobs):
    here, there = open_jobs("here"), open_jobs("there")
    add(here, "mine")
    assert there.due() == []
    assert there.one("mine", asker=Asker()).status == "queued"
    assert take(here).id == "mine"
    here.erase(["mine"])
    assert here.due() == []
    assert here.page(asker=Asker(), limit=3) == ([], None)


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_what_is_told_of_a_file_is_kept(open_jobs):
    jobs = open_jobs()
    add(jobs, "one", "a.txt", "b.txt")
    job = take(jobs)
    first = replace(job.files[0], status="embedding", chunks=7, chunks_done=3, pages=2, document_id="d")
    second = replace(job.files[1], status="failed", code="empty", message="contains no text", warnings=("w",) * 130)
    for each in (first, second):
        jobs.tell("one", each)
    assert open_jobs().one("one", asker=Asker()).files == (first, replace(second, warnings=("w",) * 101))
    assert jobs.one("one", asker=Asker()).files_done == 1


@pytest.mark.parametrize(
    ("statuses", "outcome"), [(("done", "failed"), "done"), (("unchanged",), "done"), (("failed", "failed"), "failed")]
)
def test_a_job_is_done_when_any_file_is_stored(open_jobs, clock, statuses, outcome):
    jobs = open_jobs()
    add(jobs, "one", *(f"{number}.txt" for number, _ in enumerate(statuses)))
    job = take(jobs)
    for number, status in enumerate(statuses):
        jobs.tell("one", replace(job.files[number], status=status), lasting=True)
    clock.now += 60
    jobs.finish("one")
    ended = jobs.one("one", asker=Asker())
    assert (ended.status, ended.finished_at) == (outcome, "2026-09-21T14:14:20.000Z")


def test_a_cancelled_job_does_not_run_stays_cancelled_and_its_files_are_no_longer_worked_on(open_jobs):
    jobs = open_jobs()
    add(jobs, "waits")
    add(jobs, "runs")
    assert take(jobs).id == "waits"
    job, was_waiting = jobs.cancel("waits", asker=Asker())
    assert (job.status, was_waiting, jobs.waiting(["waits"])) == ("cancelled", False, set())
    jobs.finish("waits")
    assert jobs.one("waits", asker=Asker()).status == "cancelled"
    assert jobs.cancel("runs", asker=Asker())[1]
    assert jobs.due() == []
    assert jobs.cancel("waits", asker=Asker())[0].finished_at == jobs.one("waits", asker=Asker()).finished_at
    assert jobs.waiting(["waits", "runs", "never"]) == set()
    add(jobs, "one", "a.txt", "b.txt", "c.txt")
    job = take(jobs)
    jobs.tell("one", replace(job.files[0], status="done", chunks=3, chunks_done=3))
    jobs.tell("one", replace(job.files[1], status="embedding", chunks=9, chunks_done=4))
    cancelled, was_waiting = open_jobs().cancel("one", asker=Asker())  # nobody works on it: its process was killed
    assert not was_waiting
    assert [(each.status, each.chunks_done) for each in cancelled.files] == [("done", 3), ("queued", 0), ("queued", 0)]


def test_owners_do_not_see_each_others_jobs_and_a_cursor_tells_no_number(open_jobs):
    jobs = open_jobs()
    add(jobs, "mine", owner="ada")
    for ask in (jobs.one, jobs.cancel):
        with pytest.raises(JobNotFoundError):
            ask("mine", asker=Asker("bob"))
    assert jobs.page(asker=Asker("bob"), limit=5) == ([], None)
    assert jobs.one("mine", asker=Asker("ada")).status == "queued"
    jobs.erase(["mine"])
    for number in range(12):
        add(jobs, f"job-{number}", owner="ada" if number % 2 else "bob")
    cursors = [jobs.page(asker=Asker("ada"), limit=limit)[1] for limit in range(1, 6)]
    assert {len(each) for each in cursors} == {32}
    assert [job.id for job in open_jobs("there").page(asker=Asker("ada"), limit=9, cursor=cursors[-1])[0]] == ["job-1"]


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_pages_are_newest_first_and_skip_nothing(open_jobs):
    jobs = open_jobs()
    for number in range(7):
        add(jobs, f"job-{number}")
    jobs.cancel("job-5", asker=Asker())
    seen, cursor = [], None
    while True:
        page, cursor = jobs.page(asker=Asker(), limit=3, cursor=cursor)
        seen += [job.id for job in page]
        if cursor is None:
            break
        add(jobs, f"newer-{len(seen)}")
    assert seen == [f"job-{number}" for number in reversed(range(7))]
    assert [job.id for job in jobs.page(asker=Asker(), limit=9, status="cancelled")[0]] == ["job-5"]
    with pytest.raises(InvalidInputError, match="cursor"):
        jobs.page(asker=Asker(), limit=3, cursor="am9iczox")


def test_only_so_much_may_wait(open_jobs):
    jobs = open_jobs(limits=Limits(jobs=2, spool_bytes=30))
    add(jobs, "one", size=20)
    assert jobs.room(asker=Asker()).bytes == 10
    with pytest.raises(JobsFullError):
        add(jobs, "too large", size=11)
    add(jobs, "two", size=10)
    with pytest.raises(JobsFullError) as caught:
        jobs.room(asker=Asker())
    assert caught.value.retry_after_seconds > 0
    job = take(jobs)
    jobs.tell("one", replace(job.files[0], status="done"))
    jobs.finish("one")
    assert jobs.room(asker=Asker()).bytes == 20, "what is done takes no room"
    there = open_jobs("there", Limits(jobs=1, spool_bytes=5))
    assert there.room(asker=Asker()).bytes == 5, "nor does what another directory has"


def test_one_owner_has_at_most_half_of_what_may_wait_but_for_the_first_job_and_without_keys(open_jobs):
    jobs = open_jobs(limits=Limits(jobs=4, spool_bytes=40))
    add(jobs, "large", size=30, owner="ada")
    with pytest.raises(OwnJobsFullError) as caught:
        add(jobs, "more", size=1, owner="ada")
    assert (caught.value.details["limit"], caught.value.retry_after_seconds) == ("upload_bytes_waiting", 30)
    add(jobs, "of another", size=9, owner="bob")
    jobs.cancel("large", asker=Asker("ada"))
    add(jobs, "a", size=1, owner="ada")
    add(jobs, "b", size=1, owner="ada")
    with pytest.raises(OwnJobsFullError, match="at most 2 wait"):
        jobs.room(asker=Asker("ada"))
    assert jobs.room(asker=Asker()).own_bytes == jobs.room(asker=Asker()).bytes == 29


def test_jobs_are_forgotten_some_days_after_their_end(open_jobs, clock):
    jobs = open_jobs()
    add(jobs, "ended")
    add(jobs, "waits")
    jobs.cancel("ended", asker=Asker())
    clock.now += 7 * 86_400 - 1
    jobs.forget_ended(7)
    assert jobs.one("ended", asker=Asker()).id == "ended"
    clock.now += 2
    jobs.forget_ended(7)
    with pytest.raises(JobNotFoundError):
        jobs.one("ended", asker=Asker())
    assert jobs.one("waits", asker=Asker()).id == "waits"


MEGABYTE = 1 << 20


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path)
    yield made
    made.leadership.release()


def folders(tmp_path):
    return sorted(each.name for each in (tmp_path / "uploads").iterdir() if each.is_dir())


def test_files_are_whole_with_their_size_and_digest_and_gone_when_they_are_not_kept(spool, tmp_path):
    with spool.begin() as arriving:
        file = arriving.add("a.txt", "text/plain", [b"one", b"", b"two"], max_bytes=6)
        arriving.sync()
        arriving.is_kept = True
    assert spool.path(arriving.job_id, 0).read_bytes() == b"onetwo"
    assert (file.number, file.size_bytes, file.name) == (0, 6, "a.txt")
    assert file.sha256 == hashlib.sha256(b"onetwo").hexdigest()
    spool.remove(arriving.job_id)
    with spool.begin() as arriving:
        arriving.add("a.txt", "", [b"one"], max_bytes=6)
        assert folders(tmp_path) == [arriving.job_id]
    assert folders(tmp_path) == []


@pytest.mark.parametrize(("pieces", "code"), [([], "empty"), ([b""], "empty"), ([b"x" * MEGABYTE, b"y"], "too_large")])
def test_a_refused_file_leaves_its_place_to_the_next(spool, pieces, code):
    with spool.begin() as arriving:
        with pytest.raises(RefusedFileError) as caught:
            arriving.add("bad", "", pieces, max_bytes=MEGABYTE)
        assert caught.value.code == code
        assert arriving.add("good", "", [b"1"], max_bytes=MEGABYTE).number == 0


def test_a_full_disk_is_told_as_such(spool, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with spool.begin() as arriving, pytest.raises(DiskFloorError):
        arriving.add("a", "", [b"1"], max_bytes=9)
    assert arriving.files == []


def test_the_home_of_a_directory_lasts_backups_know_it_and_one_leads_until_it_gives_up_the_lead(tmp_path):
    assert home_of(tmp_path) == ""
    home = Spool(tmp_path).home
    assert home_of(tmp_path) == Spool(tmp_path).home == home
    assert len(home) == 32
    assert [each.name for each in (tmp_path / "uploads").iterdir()] == [spooling.HOME]
    first, second = Spool(tmp_path), Spool(tmp_path)
    assert [each.leadership.acquire() for each in (first, first, second)] == [True, True, False]
    first.leadership.release()
    assert second.leadership.acquire()
    second.leadership.release()


def test_a_sweep_leaves_what_waits_and_what_is_still_arriving(spool, tmp_path):
    kept = []
    for _ in range(2):
        with spool.begin() as arriving:
            arriving.add("a", "", [b"1"], max_bytes=9)
            arriving.is_kept = True
            kept.append(arriving.job_id)
    with spool.begin() as arriving:
        Spool(tmp_path).sweep(lambda ids: {kept[0]} & set(ids))
        assert folders(tmp_path) == sorted([kept[0], arriving.job_id])
        arriving.add("still", "", [b"1"], max_bytes=9)
    assert folders(tmp_path) == [kept[0]]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *((name, name) for name in ("a.txt", "docs/a b.txt", "..hidden..md", "日本語.pdf", "👩\u200d👩\u200d👧.md")),
        *(
            ("./docs//./a.txt", "docs/a.txt"),
            ("docs\\a.txt", "docs/a.txt"),
            (" a.txt ", "a.txt"),
            ("u\u0308.txt", "ü.txt"),
        ),
    ],
)
def test_names_are_made_alike(given, name):
    assert checked_name(given) == name


@pytest.mark.parametrize(
    "given",
    [
        *("", "  ", ".", "./", "/", "..", "../a", "a/../b", "a\\..\\b", "/etc/passwd", "\\\\host\\share"),
        *("C:\\a.txt", "c:a", "a\nb", "a\0b", "a\x7fb", "a\u202efdp.exe", "a\ud800b", "a\u2028b", "x" * 501),
    ],
)
def test_names_that_lead_out_or_cannot_be_shown_are_refused(given):
    with pytest.raises(RefusedFileError) as caught:
        checked_name(given)
    assert caught.value.code == "invalid_name"
    shown = shown_name(given)
    assert shown.isprintable()
    assert len(shown.encode()) <= 4 * 500
