"""Data directories of earlier releases open, and answer as the release did that made them.

And there is a way back: the copy of the catalogue that is kept before this release migrates it is restored, and the earlier
release itself starts on it. Its code is in the history of the repository; where that is not there (a shallow clone), what
can be checked without it is that the catalogue is what the earlier release left, row by row.

`earlier_releases` has for each release a data directory, made by that release's `rag-wrapper serve` and stopped with
SIGTERM, and the requests that were sent to it with its answers: the `writes` that had an `Idempotency-Key`, and the
`reads` after them.
"""

import io
import sqlite3
import subprocess
import tarfile
import time
import zipfile
from contextlib import closing
from pathlib import Path

import orjson
import pytest
import requests

from tests.support.commands import run_command
from tests.support.live import live_service

PROJECT = Path(__file__).parents[2]
RELEASES = Path(__file__).parent / "earlier_releases"
PASSING = frozenset({"context_id", "query_id", "timestamp", "plan"})
"""What differs from one request to the next; the plan says whether the engine was ready."""
SAME = 1e-4
"""The local model's numbers differ by less from one processor to another."""
ADDED = {"relevance", "fusion", "compared_by", "min_relevance", "below_min_relevance", "place", "missing"}
"""Fields of answers that the recorded ones do not have."""
REPLACED = {"relevance_score", "relevance_scores", "avg_relevance"}
"""Fields with another meaning since: they were cosines."""

COMMITS = {
    "0.1.0": ("71b22478fcbf0f9be37e7e8497206454e6e59a10", 9),
    "0.2.0": ("9d006e159117f5476ea3e15cc4d9f1a887322547", 10),
}
"""The last commit of each earlier release, and the version of its schema."""
CODE = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces", "gunicorn.conf.py", "openapi.yaml")
LATER = {"documents": [{"id": "later", "text": "written by the newer release", "embedding": [1.0, 0.0]}]}

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module", params=COMMITS)
def name(request):
    """The number of an earlier release."""
    return request.param


@pytest.fixture(scope="module")
def release(name, tmp_path_factory):
    """The service of today on the directory of an earlier release, and what that release answered."""
    directory = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(RELEASES / f"{name}.zip") as archive:
        archive.extractall(directory / "data")
    _renew_keys(directory / "data")
    with live_service(directory) as service:
        yield service, orjson.loads((RELEASES / f"{name}.json").read_bytes())


def _renew_keys(data_dir):
    """Make the idempotency keys new: they are kept for a day."""
    with closing(sqlite3.connect(data_dir / "catalog.sqlite")) as database, database:
        database.execute("UPDATE idempotency_keys SET created_at_seconds = ?", (int(time.time()),))


def rows(catalogue):
    """Return all that is in the tables of a catalogue."""
    with closing(sqlite3.connect(catalogue)) as database:
        tables = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        ]
        return {name: sorted(map(repr, database.execute(f'SELECT * FROM "{name}"'))) for name in tables}


def _expected(recorded, answer, but_for=PASSING | REPLACED | ADDED | {"next_cursor"}):
    """Return a recorded answer with the fields of `answer` that need not be as they were recorded: by default all that
    differ from one request to the next, and those that later releases added or gave another meaning. Cursors are
    encrypted by now; where there was none, there is none."""
    if isinstance(recorded, dict) and isinstance(answer, dict):
        expected = {name: _expected(value, answer.get(name), but_for) for name, value in recorded.items()}
        for name in but_for & answer.keys():
            if name != "next_cursor" or recorded.get(name) is not None:
                expected[name] = answer[name]
        return expected
    if isinstance(recorded, list) and isinstance(answer, list) and len(recorded) == len(answer):
        return [_expected(*both, but_for) for both in zip(recorded, answer, strict=True)]
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


@pytest.fixture(scope="module")
def rolled_back(name, release):
    """The directory of the data, after something was written and the copy was restored. The service has ended."""
    service, _ = release
    with service.session() as session:
        assert session.post(f"{service.url}/collections", json={"name": "later"}).status_code == 201
        assert session.post(f"{service.url}/collections/later/documents", json=LATER).status_code in (201, 202)
    service.stop()
    (copy,) = (service.data_dir / "before-migration").iterdir()
    assert copy.name.startswith(f"before-migration-from-schema-{COMMITS[name][1]}-")
    done = run_command("restore", copy, "--replace", data_dir=service.data_dir)
    assert done.returncode == 0, done.stderr
    return service.data_dir


def test_the_restored_catalogue_is_what_the_earlier_release_left(name, rolled_back, tmp_path):
    with zipfile.ZipFile(RELEASES / f"{name}.zip") as archive:
        archive.extract("catalog.sqlite", tmp_path)
    left, restored = rows(tmp_path / "catalog.sqlite"), rows(rolled_back / "catalog.sqlite")
    del left["idempotency_keys"], restored["idempotency_keys"]  # these were made new
    assert restored == left
    assert max(int(version.strip("(),")) for version in restored["schema_version"]) == COMMITS[name][1]
    (aside,) = rolled_back.glob("replaced-*")
    assert "written by the newer release" in str(rows(aside / "catalog.sqlite")["documents"])


def test_the_earlier_release_starts_on_it_and_finds_its_documents(name, release, rolled_back, tmp_path, monkeypatch):
    code = code_of(COMMITS[name][0], tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(code))
    _, recorded = release
    with live_service(rolled_back.parent) as service, requests.Session() as session:
        assert str(code) in started_from(service.process.pid)
        for read in recorded["reads"]:
            answer = session.request(read["method"], service.url + read["path"], json=read["body"]).json()
            assert answer == _expected(read["answer"], answer, but_for=PASSING), read["path"]
        assert session.get(f"{service.url}/collections/later").status_code == 404
        written = session.post(f"{service.url}/collections", json={"name": "again"})
        assert written.status_code == 201


def code_of(commit, folder):
    """Return a folder with the code of a commit; skip the test where the history does not have it."""
    packed = subprocess.run(
        ["git", "archive", commit, *CODE], cwd=PROJECT, capture_output=True, check=False, timeout=60
    )
    if packed.returncode != 0:
        pytest.skip(
            f"NOT TESTED: that the earlier release starts after a rollback. Its commit {commit[:7]} is not in the history "
            "of this clone: git fetch --unshallow"
        )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def started_from(pid):
    return Path(f"/proc/{pid}/cwd").resolve().as_posix()
