"""Data directories of earlier releases open, and answer as the release did that made them.

`earlier_releases` has for each release a data directory, made by that release's `rag-wrapper serve` and stopped with
SIGTERM, and the requests that were sent to it with its answers: the `writes` that had an `Idempotency-Key`, and the
`reads` after them.
"""

import sqlite3
import time
import zipfile
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from tests.support.live import live_service

RELEASES = Path(__file__).parent / "earlier_releases"
PASSING = frozenset({"context_id", "query_id", "timestamp", "plan"})
"""What differs from one request to the next; the plan says whether the engine was ready."""
SAME = 1e-4
"""The local model's numbers differ by less from one processor to another."""
ADDED = {"relevance", "fusion", "compared_by", "min_relevance", "below_min_relevance", "place", "missing"}
"""Fields of answers that the recorded ones do not have."""
REPLACED = {"relevance_score", "relevance_scores", "avg_relevance"}
"""Fields with another meaning since: they were cosines."""

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module", params=["0.1.0", "0.2.0"])
def release(request, tmp_path_factory):
    """The service of today on the directory of an earlier release, and what that release answered."""
    directory = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(RELEASES / f"{request.param}.zip") as archive:
        archive.extractall(directory / "data")
    _renew_keys(directory / "data")
    with live_service(directory) as service:
        yield service, orjson.loads((RELEASES / f"{request.param}.json").read_bytes())


def _renew_keys(data_dir):
    """Make the idempotency keys new: they are kept for a day."""
    with closing(sqlite3.connect(data_dir / "catalog.sqlite")) as database, database:
        database.execute("UPDATE idempotency_keys SET created_at_seconds = ?", (int(time.time()),))


def _differs(name, recorded):
    """Return whether a field of an answer need not be as it was recorded. Cursors are encrypted by now; where there was
    none, there is none."""
    return name in PASSING | REPLACED or (name == "next_cursor" and recorded is not None)


def _expected(recorded, answer):
    """Return a recorded answer with the parts of `answer` that differ from one request to the next, and those that
    later releases added or gave another meaning."""
    if isinstance(recorded, dict) and isinstance(answer, dict):
        added = {name: answer[name] for name in ADDED & answer.keys()}
        return added | {
            name: answer.get(name) if _differs(name, value) else _expected(value, answer.get(name))
            for name, value in recorded.items()
        }
    if isinstance(recorded, list) and isinstance(answer, list) and len(recorded) == len(answer):
        return [_expected(*both) for both in zip(recorded, answer, strict=True)]
    return pytest.approx(recorded, abs=SAME) if isinstance(recorded, float) else recorded


def test_reads_are_answered_as_before(release):
    service, recorded = release
    with service.session() as session:
        for read in recorded["reads"]:
            answer = session.request(read["method"], service.url + read["path"], json=read["body"]).json()
            assert answer == _expected(read["answer"], answer), read["path"]


def test_repeated_writes_are_answered_as_the_first_time_and_change_nothing(release):
    service, recorded = release
    with service.session() as session:
        before = session.get(f"{service.url}/collections").json()
        for write in recorded["writes"]:
            answer = session.request(
                write["method"], service.url + write["path"], data=write["body"].encode(), headers=write["headers"]
            )
            said = (answer.status_code, answer.headers.get("Idempotent-Replayed"), answer.headers.get("ETag"))
            assert said == (write["status"], "true", write["etag"]), write["path"]
            assert answer.json() == write["answer"], write["path"]
        assert session.get(f"{service.url}/collections").json() == before
