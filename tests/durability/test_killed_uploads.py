"""Uploads that were answered are stored, whatever is killed before they are."""

import pytest

from interfaces.commands.scratch_service import processes_in
from tests.durability.processes import alive, children, keeper, kill, leader, workers
from tests.support.live import eventually

SHORT = b"# Backups\n\nBackups run every night at two."
PARTS = 60
LONG = "\n\n".join(f"# Part {number}\n\n" + f"Words of part {number}. " * 20 for number in range(PARTS)).encode()
"""A text that takes the model a second or more."""


@pytest.fixture
def uploaded():
    """`uploaded(service)`: the id of a job whose first file is stored and whose second is being embedded."""

    def upload(service):
        files = [("file", (name, content)) for name, content in (("a.md", SHORT), ("long.md", LONG), ("c.md", SHORT))]
        with service.session() as session:
            answer = session.post(f"{service.url}/api/documents", files=files, timeout=30)
        assert answer.status_code == 202, answer.text
        job_id = answer.json()["job"]["id"]
        eventually(
            lambda: [each["status"] for each in job(service, job_id)["files"]] == ["done", "embedding", "queued"],
            complaint=service.tail,
        )
        return job_id

    return upload


def job(service, job_id):
    with service.session() as session:
        return session.get(f"{service.url}/api/jobs/{job_id}", timeout=10).json()


def documents(service):
    with service.session() as session:
        listed = session.get(f"{service.url}/api/documents", timeout=10).json()["documents"]
    return {each["source"]: each for each in listed}


def ends(service, job_id):
    eventually(lambda: job(service, job_id)["status"] not in ("queued", "running"), complaint=service.tail)
    ended = job(service, job_id)
    assert (ended["status"], [each["status"] for each in ended["files"]]) == ("done", ["done"] * 3)
    assert {source: each["chunks"] for source, each in documents(service).items()} == {
        "a.md": 1,
        "long.md": PARTS,
        "c.md": 1,
    }
    eventually(lambda: [each.name for each in (service.data_dir / "uploads").iterdir()] == ["home"])


def test_after_a_kill_of_everything_a_job_goes_on_with_the_next_start(serve, uploaded):
    service = serve()
    job_id = uploaded(service)
    first = documents(service)["a.md"]
    kill(service.process.pid, *workers(service), keeper(service), service.engine_pid)
    eventually(lambda: not processes_in(service.data_dir))
    again = serve()
    ends(again, job_id)
    assert documents(again)["a.md"] == first


def test_a_killed_worker_leaves_its_job_to_another_and_a_stop_to_the_next_start(serve, uploaded):
    service = serve(workers=2)
    job_id = uploaded(service)
    doomed = leader(service, "jobs.lock")
    (embedder,) = children(doomed)
    kill(doomed)
    eventually(lambda: not alive(doomed))
    eventually(lambda: leader(service, "jobs.lock") not in (None, doomed), complaint=service.tail)
    eventually(lambda: not alive(embedder))
    eventually(lambda: job(service, job_id)["files"][1]["status"] == "embedding", complaint=service.tail)
    assert service.stop() == 0
    again = serve()
    assert job(again, job_id)["files"][0]["status"] == "done"
    ends(again, job_id)


def test_attached_files_are_stored_or_have_failed_after_a_kill(serve):
    service = serve()
    stores = f"{service.url}/v1/vector_stores"
    with service.session() as session:
        ids = [
            session.post(
                f"{service.url}/v1/files", files={"file": (name, content)}, data={"purpose": "assistants"}, timeout=30
            ).json()["id"]
            for name, content in (("a.md", SHORT), ("long.md", LONG), ("c.exe", b"MZ"))
        ]
        store = session.post(stores, json={"name": "killed"}, timeout=30).json()["id"]
        batch = session.post(f"{stores}/{store}/file_batches", json={"file_ids": ids}, timeout=30).json()["id"]
    job_id = batch.removeprefix("vsfb_")
    eventually(lambda: job(service, job_id)["files"][1]["status"] == "embedding", complaint=service.tail)
    kill(service.process.pid, *workers(service), keeper(service), service.engine_pid)
    eventually(lambda: not processes_in(service.data_dir))
    again = serve()

    def statuses():
        with again.session() as session:
            listed = session.get(f"{again.url}/v1/vector_stores/{store}/files", timeout=30).json()["data"]
        return {each["id"]: each["status"] for each in listed}

    eventually(lambda: "in_progress" not in statuses().values(), complaint=again.tail)
    assert statuses() == dict(zip(ids, ("completed", "completed", "failed"), strict=True))
    with again.session() as session:
        assert session.get(f"{again.url}/v1/files/{ids[1]}/content", timeout=30).content == LONG
        found = session.get(f"{again.url}/v1/vector_stores/{store}/file_batches/{batch}", timeout=30).json()
    assert (found["status"], found["file_counts"]["completed"], found["file_counts"]["failed"]) == ("completed", 2, 1)
