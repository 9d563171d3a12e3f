"""The service writes to its data directory and to `/tmp`, and nowhere else: its root can be read-only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.read_only import writing_only_to
from tests.support.live import eventually, start_service

PROJECT = Path(__file__).parents[2]
OF_A_CONTAINER = (Path("/dev"), Path("/proc"))
"""What a container has to write to beside its root."""


@pytest.fixture
def places(tmp_path, monkeypatch):
    for name in ("data", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "service.log").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return (tmp_path / "data", tmp_path / "tmp", tmp_path / "service.log", *OF_A_CONTAINER)


def test_a_write_to_elsewhere_would_be_refused(tmp_path, places):
    def write():
        (tmp_path / "data" / "here").write_text("written")
        with pytest.raises(PermissionError):
            (tmp_path / "elsewhere").write_text("refused")
        with pytest.raises(PermissionError):
            (tmp_path / "nobody").mkdir()

    writing_only_to(places, write)


def test_the_service_works_where_it_may_write_to_its_data_alone(tmp_path, places, processes):
    service = writing_only_to(places, lambda: start_service(tmp_path, workers=1, access="open"))
    try:
        with service.session() as session:
            gate = {"source": "house", "path": "/rules", "title": "Rules", "text": "The gate closes at nine."}
            assert session.post(f"{service.url}/api/rag/ingest", json=gate).status_code == 200
            with (PROJECT / "examples" / "gettysburg-address.pdf").open("rb") as file:
                taken = session.post(f"{service.url}/api/documents", files={"file": file})
            job = f"{service.url}/api/jobs/{taken.json()['job']['id']}"
            eventually(lambda: session.get(job).json()["status"] in ("done", "failed"), complaint=service.tail)
            assert session.get(job).json()["files"][0]["status"] == "done"
            asked = {"query": "When is the gate shut?", "limit": 1}
            [found] = session.post(f"{service.url}/api/search", json=asked).json()["results"]
            assert found["content"] == gate["text"]
            assert session.get(f"{service.url}/metrics").status_code == 200
    finally:
        assert service.stop() == 0
    assert {path.name for path in tmp_path.iterdir()} == {"data", "tmp", "service.log"}
    assert "denied" not in service.tail()
    assert list((tmp_path / "tmp").iterdir()) == [], "nothing is left"
