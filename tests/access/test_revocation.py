"""A revoked key is refused by every worker of every service of a catalogue."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager

import requests

from tests.access.keyed import PROMISED_SECONDS
from tests.support.chroma import ChromaServer
from tests.support.live import live_service

ADMIN_KEY = "an-administrators-key-for-tests"
SLACK_SECONDS = 8.0
"""Added to what is promised: the test shares its machine with others."""


@contextmanager
def _chroma(directory):
    """The Chroma server that services of one catalogue share."""
    server = ChromaServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def test_a_revocation_reaches_four_workers_of_two_services(postgres, tmp_path, processes):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        postgres.catalogue() as url,
        _chroma(tmp_path / "elsewhere") as chroma,
        live_service(tmp_path / "one", workers=4, api_key=ADMIN_KEY, catalog_url=url, chroma_url=chroma.url) as one,
        live_service(tmp_path / "two", workers=4, api_key=ADMIN_KEY, catalog_url=url, chroma_url=chroma.url) as two,
    ):
        admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
        made = requests.post(
            f"{one.url}/api/keys", json={"name": "k", "scopes": ["read"]}, headers=admin, timeout=30
        ).json()
        key = {"Authorization": f"Bearer {made['key']}", "Connection": "close"}

        def statuses():
            return {
                requests.get(f"{each.url}/api/me", headers=key, timeout=30).status_code
                for each in (one, two)
                for _ in range(12)
            }

        assert statuses() == {200}
        assert requests.delete(f"{two.url}/api/keys/{made['id']}", headers=admin, timeout=30).status_code == 200
        deadline = time.monotonic() + PROMISED_SECONDS + SLACK_SECONDS
        while statuses() != {401}:
            assert time.monotonic() < deadline, "a worker still takes the key"
