"""Archives with members that no backup has, or has only once."""

import pytest

from tests.wrapper.backups.test_restoring import listing, restored
from wrapper.backups.archive import ArchiveReader, ArchiveWriter, read_head
from wrapper.backups.sealing import DamagedArchiveError


def test_the_lock_of_an_audit_log_in_an_archive_is_not_restored(place, new_place, tmp_path):
    """Restored files of the log are finished, and nobody but root could open such a lock."""
    file = place.back_up(tmp_path / "backups")
    with (tmp_path / "older").open("wb") as older, file.open("rb") as opened:
        reader = ArchiveReader(opened, None)
        writer = ArchiveWriter(older, reader.head, None)
        for name, content in reader.entries():
            writer.add(name, content)
        writer.add("audit/audit.lock", iter([b""]))
        writer.finish()
    other = new_place("other")
    restored(tmp_path / "older", other.settings)
    assert [each.name for each in (other.data_dir / "audit").iterdir()] == ["audit-2026-11-25-0001.jsonl"]


@pytest.mark.parametrize(
    "names", [("secret.key", "secret.key"), ("originals/a/b", "originals/a/b"), ("originals/a", "originals/a/b")]
)
def test_members_of_one_name_are_refused(place, new_place, tmp_path, names):
    file = place.back_up(tmp_path / "backups")
    with (tmp_path / "hostile").open("wb") as hostile, file.open("rb") as opened:
        reader = ArchiveReader(opened, None)
        writer = ArchiveWriter(hostile, reader.head, None)
        for name, content in reader.entries():
            if name not in names:
                writer.add(name, content)
        for name in names:
            writer.add(name, iter([b"x"]))
        writer.finish()
    other = new_place("other")
    with pytest.raises(DamagedArchiveError, match="have one name"):
        restored(tmp_path / "hostile", other.settings)
    assert listing(other.data_dir) == {}


def test_members_that_are_none_are_refused(place, new_place, tmp_path):
    """An archive that was made to write other files than a backup has."""
    file = place.back_up(tmp_path / "backups")
    with file.open("rb") as opened:
        head, _ = read_head(opened)
    for name in ("service.lock", "chroma/chroma.sqlite3", "restore-under-way", "engine.json"):
        with (tmp_path / "hostile").open("wb") as hostile:
            writer = ArchiveWriter(hostile, head, None)
            writer.add(name, iter([b"[]"]))
            writer.finish()
        other = new_place(f"other-{name.split('/')[0]}")
        with pytest.raises(DamagedArchiveError):
            restored(tmp_path / "hostile", other.settings)
        assert listing(other.data_dir) == {}
