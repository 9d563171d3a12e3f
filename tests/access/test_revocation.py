"""A revoked key is refused by every worker of every service of a catalogue, and tells those nothing who wait with it."""

import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import orjson
import pytest
import requests

from tests.access.conftest import ADMIN_KEY
from tests.access.keyed import MINE, PROMISED_SECONDS
from tests.durability.processes import worker_of, workers
from tests.support.chroma import ChromaServer
from tests.support.live import PATIENCE_SECONDS, eventually, live_service

WORKERS = 4


@contextmanager
def _chroma(directory):
    """The Chroma server that services of one catalogue share."""
    server = ChromaServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def _connection_to_each_worker(service, stack):
    """Return one kept connection to each worker of a service."""
    found = {}

    def have_all():
        connection = stack.enter_context(service.one_connection())
        assert connection.ask("GET", "/live").status == 200
        found.setdefault(worker_of(connection.local_port, service), connection)
        return len(workers(service)) == WORKERS and found.keys() == set(workers(service))

    eventually(have_all)
    return list(found.values())


def test_a_revocation_reaches_each_worker_of_two_services(postgres, tmp_path, processes):
    """No worker takes the key for a request that was sent later than promised after the revocation was answered.

    A busy machine makes the answer later, and requests are older when they are judged: neither makes this fail.
    """
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        postgres.catalogue() as url,
        _chroma(tmp_path / "elsewhere") as chroma,
        live_service(
            tmp_path / "one", workers=WORKERS, api_key=ADMIN_KEY, catalog_url=url, chroma_url=chroma.url
        ) as one,
        live_service(
            tmp_path / "two", workers=WORKERS, api_key=ADMIN_KEY, catalog_url=url, chroma_url=chroma.url
        ) as two,
        ExitStack() as stack,
    ):
        admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
        made = requests.post(
            f"{one.url}/api/keys", json={"name": "k", "scopes": ["read"]}, headers=admin, timeout=PATIENCE_SECONDS
        ).json()
        connections = [each for service in (one, two) for each in _connection_to_each_worker(service, stack)]

        def status_by(connection):
            return connection.ask("GET", "/api/me", Authorization=f"Bearer {made['key']}").status

        assert [status_by(each) for each in connections] == [200] * 2 * WORKERS
        assert (
            requests.delete(f"{two.url}/api/keys/{made['id']}", headers=admin, timeout=PATIENCE_SECONDS).status_code
            == 200
        )
        revoked_at = time.monotonic()
        refused = set()
        while len(refused) < len(connections):
            for connection in connections:
                is_late = time.monotonic() > revoked_at + PROMISED_SECONDS
                status = status_by(connection)
                if is_late:
                    assert status == 401, "a worker still takes the key"
                    refused.add(connection)


@pytest.mark.parametrize("change", [None, {"where": {"public": True}}], ids=["revoked", "narrowed"])
def test_who_waits_for_changes_is_told_nothing_once_their_key_has_no_right_to_it(keyed, change):
    made = keyed.new_key(name="follows", scopes=["read"], collections=["mine*"])
    path, own = f"/collections/{MINE}/changes", f"/api/keys/{made['id']}"
    place = orjson.loads(keyed.ask("GET", path, made["key"]).content.splitlines()[-1])
    answers = []

    def follow():
        answers.append(keyed.ask("GET", f"{path}?since={place['next']}&wait=60", made["key"]).content)

    waiting = threading.Thread(target=follow)
    waiting.start()
    eventually(lambda: keyed.service.running_in("following", Authorization=f"Bearer {keyed.admin_key}") == 1)
    ended = keyed.ask("DELETE" if change is None else "PATCH", own, keyed.admin_key, change)
    assert ended.status_code == 200
    ended_at = time.monotonic()
    # Until then the worker that lets them wait need not know.
    eventually(lambda: time.monotonic() > ended_at + PROMISED_SECONDS)
    secret = {"id": "late", "text": "late", "metadata": {"public": False}, "embedding": [1.0, 1.0]}
    added = keyed.ask("POST", f"/collections/{MINE}/documents", keyed.admin_key, {"documents": [secret]})
    assert added.status_code in (201, 202)
    waiting.join(PATIENCE_SECONDS)
    assert len(answers) == 1
    assert b"late" not in answers[0]
    assert keyed.ask("DELETE", f"/collections/{MINE}/documents/late", keyed.admin_key).status_code == 200
