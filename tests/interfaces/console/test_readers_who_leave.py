"""A page whose reader has closed the connection asks the service for nothing more, and waits for nothing."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.support.live import eventually
from wrapper.web.lanes import Lane
from wrapper.web.slow_clients import Patience, PatientSocket


@pytest.fixture
def reader():
    """(The reader's end of a connection, the service's end as gunicorn hands it to an application)."""
    browser, service = socket.socketpair()
    with browser, PatientSocket(service.detach(), Patience(1.0, 1)) as connection:
        yield browser, {"gunicorn.socket": connection}


def test_a_page_that_waits_for_its_turn_gives_it_up_when_its_reader_leaves(app, admin, client, reader):
    browser, connection = reader
    assert client.post("/collections", json={"name": "left"}).status_code == 201
    lanes = app.extensions["rag.lanes"]

    def waiting():
        return {name: waits for name, _, waits in lanes.held()}["computing"]

    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        for _ in range(app.extensions["rag.service"].settings.threads):
            stack.callback(lanes.enter(Lane.COMPUTING, lambda: False))
        page = pool.submit(admin.client.get, "/console/collections/left/map", environ_overrides=connection)
        eventually(waiting)
        browser.close()
        assert page.result(timeout=20).status_code == 503
        assert waiting() == 0


def test_a_page_whose_reader_has_left_asks_for_nothing(app, admin, reader):
    browser, connection = reader
    browser.close()
    answer = admin.client.get("/console/collections", environ_overrides=connection)
    assert (answer.status_code, answer.data) == (503, b"")
