"""Uploads that were answered are stored, whatever is killed before they are."""

import threading

import pytest

from tests.durability.processes import alive, kill, kill_everything, leader
from tests.durability.workload import ask
from tests.support.live import PATIENCE_SECONDS, eventually

SHORT = b"# Backups\n\nBackups run every night at two."
PARTS = 3
LONG = "\n\n".join(f"# Part {number}\n\n" + f"Words of part {number}. " * 20 for number in range(PARTS)).encode()
STORES = "/v1/vector_stores"


class Gate:
    """Lets no part of the long file be embedded before it is open."""

    def __init__(self, models):
        self.asked, self.open = threading.Event(), threading.Event()
        self._models = models
        self._usual = models.routes["/v1/embeddings"]
        models.routes["/v1/embeddings"] = self._embed

    def _embed(self, body):
        if any("Words of part" in text for text in body["input"]):
            self.asked.set()
            self.open.wait(PATIENCE_SECONDS)
        return self._usual(body)

    def remove(self):
        self.open.set()
        self._models.routes["/v1/embeddings"] = self._usual


@pytest.fixture
def gate(models_up):
    gate = Gate(models_up)
    yield gate
    gate.remove()


@pytest.fixture
def start(serve, models_up):
    """`start(**settings)` starts a service whose texts the stub embeds."""
    models = {"embedding_provider": "openai", "embedding_url": f"{models_up.url}/v1", "embedding_model": "stub"}
    return lambda **settings: serve(**models, **settings)


def upload(service, gate):
    """Return the id of a job whose second file waits at the gate, and whose others are stored."""
    files = [("file", (name, content)) for name, content in (("a.md", SHORT), ("long.md", LONG), ("c.md", SHORT))]
    job_id = ask(service, "POST", "/api/documents", status=202, files=files)["job"]["id"]
    assert gate.asked.wait(PATIENCE_SECONDS), service.tail()
    eventually(lambda: statuses(service, job_id) == ["done", "embedding", "done"], complaint=service.tail)
    return job_id


def statuses(service, job_id):
    return [each["status"] for each in ask(service, "GET", f"/api/jobs/{job_id}")["files"]]


def documents(service):
    return {each["source"]: each for each in ask(service, "GET", "/api/documents")["documents"]}


def ends(service, job_id):
    eventually(
        lambda: ask(service, "GET", f"/api/jobs/{job_id}")["status"] not in ("queued", "running"),
        complaint=service.tail,
    )
    assert ask(service, "GET", f"/api/jobs/{job_id}")["status"] == "done"
    assert statuses(service, job_id) == ["done"] * 3
    chunks = {source: each["chunks"] for source, each in documents(service).items()}
    assert chunks == {"a.md": 1, "long.md": PARTS, "c.md": 1}
    eventually(lambda: [each.name for each in (service.data_dir / "uploads").iterdir()] == ["home"])


def test_after_a_kill_of_everything_a_job_goes_on_with_the_next_start(start, gate):
    service = start()
    job_id = upload(service, gate)
    first = documents(service)["a.md"]
    kill_everything(service)
    gate.open.set()
    again = start()
    ends(again, job_id)
    assert documents(again)["a.md"] == first


def test_a_killed_worker_leaves_its_job_to_another_and_a_stop_to_the_next_start(start, gate):
    service = start(workers=2)
    job_id = upload(service, gate)
    doomed = leader(service, "jobs.lock")
    gate.asked.clear()
    kill(doomed)
    eventually(lambda: not alive(doomed))
    eventually(lambda: leader(service, "jobs.lock") not in (None, doomed), complaint=service.tail)
    assert gate.asked.wait(PATIENCE_SECONDS), service.tail()
    assert statuses(service, job_id) == ["done", "embedding", "done"]
    assert service.stop() == 0
    gate.open.set()
    again = start()
    assert statuses(again, job_id)[0] == "done"
    ends(again, job_id)


def test_attached_files_are_stored_or_have_failed_after_a_kill(start, gate):
    service = start()
    ids = [
        ask(service, "POST", "/v1/files", files={"file": (name, content)}, data={"purpose": "assistants"})["id"]
        for name, content in (("a.md", SHORT), ("long.md", LONG), ("c.exe", b"MZ"))
    ]
    store = ask(service, "POST", STORES, json={"name": "killed"})["id"]
    batch = ask(service, "POST", f"{STORES}/{store}/file_batches", json={"file_ids": ids})["id"]
    assert gate.asked.wait(PATIENCE_SECONDS), service.tail()
    assert statuses(service, batch.removeprefix("vsfb_"))[1] == "embedding"
    kill_everything(service)
    gate.open.set()
    again = start()

    def attached():
        return {each["id"]: each["status"] for each in ask(again, "GET", f"{STORES}/{store}/files")["data"]}

    eventually(lambda: "in_progress" not in attached().values(), complaint=again.tail)
    assert attached() == dict(zip(ids, ("completed", "completed", "failed"), strict=True))
    with again.session() as session:
        assert session.get(f"{again.url}/v1/files/{ids[1]}/content").content == LONG
    found = ask(again, "GET", f"{STORES}/{store}/file_batches/{batch}")
    assert (found["status"], found["file_counts"]["completed"], found["file_counts"]["failed"]) == ("completed", 2, 1)
