"""What is being erased is written down, or nothing is erased."""

import errno
import os

import pytest

from retrieval.erasing.pending import PendingErasures
from schemas.errors import DiskFloorError, UnavailableError
from schemas.storage.erasure import Matched, Target, mark_of

BEGUN = Matched(
    Target("docs", "1", ids=frozenset({"a"}), ids_beside=frozenset({"b"}), former=frozenset({mark_of("a", "words")})),
    (b"words",),
    request_digest="digest",
)


@pytest.fixture
def pending(tmp_path):
    return PendingErasures(tmp_path / "erasures")


def test_what_is_kept_is_found_until_it_is_done(pending, tmp_path):
    pending.keep([BEGUN])
    assert pending.all() == [BEGUN]
    assert b"words" not in (tmp_path / "erasures").read_bytes()
    pending.keep([])
    assert (pending.all(), list(tmp_path.iterdir())) == ([], [])


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, DiskFloorError), (errno.EDQUOT, DiskFloorError), (errno.EIO, UnavailableError)]
)
def test_what_cannot_be_written_down_is_refused_and_what_was_kept_stays(pending, monkeypatch, number, error):
    pending.keep([BEGUN])

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error):
        pending.keep([BEGUN, BEGUN])
    assert pending.all() == [BEGUN]
