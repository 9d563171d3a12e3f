"""Services on several ports over one PostgreSQL and one Chroma server are one service to their clients."""

import os
import signal
import subprocess
from contextlib import ExitStack

import pytest
import requests

from interfaces.commands.scratch_service import command
from tests.durability.workload import (
    Writer,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    nearest,
    running,
    written,
)
from tests.support.live import PATIENCE_SECONDS, chroma_client_at, start_service
from tests.support.postgres import PASSWORD, postgres_server

TOGETHER = "together"


@pytest.fixture
def own_postgres():
    with postgres_server() as server:
        yield server


@pytest.fixture
def start(tmp_path):
    """`start(name, url, **settings)` starts a service with a directory of its own."""
    with ExitStack() as stack:

        def start_one(name, url, **settings):
            (tmp_path / name).mkdir(exist_ok=True)
            service = start_service(tmp_path / name, catalog_url=url, **{"exact_ms": 0, "recall": 0, **settings})
            stack.callback(service.stop)
            return service

        yield start_one


@pytest.fixture
def pair(postgres, chroma_server, start):
    with postgres.catalogue() as url:
        services = [start(name, url, chroma_url=chroma_server.url) for name in ("one", "other")]
        yield services
        for service in services:
            service.stop()


def _kill(service):
    os.killpg(service.process.pid, signal.SIGKILL)
    service.process.wait(PATIENCE_SECONDS)


def _each_written(writers, more, stopping):
    for writer in writers:
        written([writer], more, stopping, complaint=writer.service.tail)


def test_each_service_finds_what_the_other_stored(pair):
    one, other = pair
    create(one, TOGETHER)
    with one.session() as session:
        for number, (writing, reading) in enumerate([(one, other), (other, one)] * 5):
            (document,) = documents(1, seed=number)
            path = f"/collections/{TOGETHER}/documents"
            key = {"Idempotency-Key": f"key-{number}"}
            first = session.post(
                f"{writing.url}{path}", json={"documents": [document]}, headers=key, timeout=PATIENCE_SECONDS
            )
            assert first.status_code == 201, first.text
            assert (
                session.get(f"{reading.url}{path}/{document['id']}", timeout=PATIENCE_SECONDS).json()["text"]
                == document["text"]
            )
            assert nearest(reading, TOGETHER, document["embedding"])[0] == [document["id"]]
            again = session.post(
                f"{reading.url}{path}", json={"documents": [document]}, headers=key, timeout=PATIENCE_SECONDS
            )
            assert (again.status_code, again.json()) == (201, first.json())
            counted = session.get(f"{reading.url}/collections/{TOGETHER}", timeout=PATIENCE_SECONDS).json()
            assert counted["count"] == number + 1
        for service in pair:
            report = session.get(f"{service.url}/health", timeout=PATIENCE_SECONDS)
            assert report.json()["catalog"] == {"status": "healthy", "kind": "postgresql"}
            assert PASSWORD not in report.text
            assert PASSWORD not in service.log.read_text()


@pytest.mark.parametrize("first_killed", [0, 1])
def test_either_service_may_be_killed_and_nothing_is_lost(pair, chroma_server, first_killed, start):
    # One of the two leads, so killing each in turn kills the leader once.
    victim, survivor = pair[first_killed], pair[1 - first_killed]
    create(victim, TOGETHER)
    writers = [Writer(victim, TOGETHER, 1), Writer(survivor, TOGETHER, 2, read_back=True)]
    with running([writer.run for writer in writers]) as stopping:
        _each_written(writers, 10, stopping)
        _kill(victim)
        _each_written(writers[1:], 20, stopping)
    assert not writers[1].refused
    assert not writers[1].violations
    healed(survivor)
    with chroma_client_at(chroma_server.url) as engine:
        assert_nothing_is_lost(survivor, TOGETHER, writers, engine=engine)


def test_nothing_is_lost_when_the_database_is_restarted_under_load(own_postgres, chroma_server, start):
    with own_postgres.catalogue(empty=True) as url:
        services = [start(name, url, chroma_url=chroma_server.url) for name in ("one", "other")]
        create(services[0], TOGETHER)
        writers = [Writer(service, TOGETHER, number) for number, service in enumerate(services, 1)]
        with running([writer.run for writer in writers]) as stopping:
            for mode in ("fast", "immediate"):
                _each_written(writers, 10, stopping)
                own_postgres.stop(mode)
                answer = requests.get(f"{services[0].url}/collections", timeout=PATIENCE_SECONDS)
                assert (answer.status_code, answer.json()["code"]) == (503, "catalog_unavailable")
                assert int(answer.headers["Retry-After"]) > 0
                own_postgres.start()
            _each_written(writers, 10, stopping)
        for service, writer in zip(services, writers, strict=True):
            # A refusal says nothing about what is stored.
            assert all(" 503 " in refused and "catalog_unavailable" in refused for refused in writer.refused)
            healed(service)
            assert PASSWORD not in service.log.read_text()
            service.stop()


def test_a_second_service_with_an_engine_of_its_own_is_refused(postgres, start, tmp_path):
    with postgres.catalogue() as url:
        first = start("first", url)
        create(first, TOGETHER, documents(5, seed=1))
        for settings in ({}, {"RAG_CHROMA_URL": "http://127.0.0.1:9"}):
            environ = {**os.environ, "RAG_CATALOG_URL": url, "RAG_DATA_DIR": str(tmp_path / "second"), "RAG_PORT": "9"}
            refused = subprocess.run(
                command("serve"),
                env={**environ, **settings},
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            assert refused.returncode != 0
            assert "Another service with an engine of its own uses this catalogue" in refused.stderr
            assert PASSWORD not in refused.stderr + refused.stdout
        first.stop()
        start("second", url).stop()
