"""The files of uploads on the disk, and their names."""

import hashlib
import os

import pytest

from retrieval.jobs import spool as spooling
from retrieval.jobs.file_names import checked_name, shown_name
from retrieval.jobs.spool import Spool
from schemas.contracts.jobs import RefusedFileError
from schemas.errors import DiskFloorError
from wrapper.backups.files import home_of

MEGABYTE = 1 << 20


@pytest.fixture
def spool(tmp_path):
    made = Spool(tmp_path)
    yield made
    made.give_up_lead()


def folders(tmp_path):
    return sorted(each.name for each in (tmp_path / "uploads").iterdir() if each.is_dir())


def test_files_are_whole_with_their_size_and_digest_and_gone_when_they_are_not_kept(spool, tmp_path):
    with spool.begin() as arriving:
        file = arriving.add("a.txt", "text/plain", [b"one", b"", b"two"], max_bytes=6)
        arriving.sync()
        arriving.keep()
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
    assert home_of(tmp_path) == home
    assert Spool(tmp_path).home == Spool(tmp_path).home
    assert len(Spool(tmp_path).home) == 32
    assert [each.name for each in (tmp_path / "uploads").iterdir()] == [spooling.HOME]
    first, second = Spool(tmp_path), Spool(tmp_path)
    assert first.lead()
    assert first.lead()
    assert not second.lead()
    first.give_up_lead()
    assert second.lead()
    second.give_up_lead()


def test_a_sweep_leaves_what_waits_and_what_is_still_arriving(spool, tmp_path):
    kept = []
    for _ in range(2):
        with spool.begin() as arriving:
            arriving.add("a", "", [b"1"], max_bytes=9)
            arriving.keep()
            kept.append(arriving.job_id)
    with spool.begin() as arriving:
        Spool(tmp_path).sweep(lambda ids: {kept[0]} & set(ids))
        assert folders(tmp_path) == sorted([kept[0], arriving.job_id])
        arriving.add("still", "", [b"1"], max_bytes=9)
    assert folders(tmp_path) == [kept[0]]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a.txt", "a.txt"),
        ("docs/a b.txt", "docs/a b.txt"),
        ("./docs//./a.txt", "docs/a.txt"),
        ("docs\\a.txt", "docs/a.txt"),
        (" a.txt ", "a.txt"),
        ("u\u0308.txt", "ü.txt"),
        ("..hidden..md", "..hidden..md"),
        ("日本語.pdf", "日本語.pdf"),
        ("👩\u200d👩\u200d👧.md", "👩\u200d👩\u200d👧.md"),
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
