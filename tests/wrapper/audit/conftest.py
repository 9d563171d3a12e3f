"""Audit logs in a folder of the test, and what is in them."""

from datetime import UTC, datetime

import orjson
import pytest

from schemas.storage.audit import AuditEvent, AuditQuery
from tests.wrapper.clock import Clock
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.file_names import files_in
from wrapper.audit.reading import newest_first


@pytest.fixture
def clock():
    return Clock(datetime(2026, 11, 23, 12, tzinfo=UTC))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "audit"


@pytest.fixture
def open_log(folder, clock):
    """`open_log(max_bytes=…)` opens the log of the test's folder, as each process does."""
    opened = []

    def open_log(*, max_bytes=1 << 20, requests_at_once=4):
        opened.append(AuditLog(folder, max_bytes=max_bytes, requests_at_once=requests_at_once, clock=clock))
        return opened[-1]

    yield open_log
    for each in opened:
        each.close()


def event(number=0, **fields):
    return AuditEvent(**{"method": "POST", "route": "/collections", "status": 201, "count": number, **fields})


def lines_of(folder, *, killed=0):
    """Return the objects of all lines, oldest first.

    Each of the processes that were `killed` may have left a torn line: the kernel ends a write between two pages.
    """
    lines = [line for name in files_in(folder) for line in (folder / str(name)).read_bytes().splitlines()]
    whole = [line for line in lines if line.endswith(b"}")]
    assert len(lines) - len(whole) <= killed
    return [orjson.loads(line) for line in whole]


def entries(folder, **query):
    """Return (the entries that fit, newest first; how many lines were skipped)."""
    skipped = []
    found = list(newest_first(folder, AuditQuery(**query), skip=lambda: skipped.append(1)))
    return found, len(skipped)
