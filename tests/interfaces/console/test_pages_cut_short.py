"""A page whose reader has left asks for nothing more; one whose key ends while it is made leads to the sign-in."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.access.authentication import Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.web.callers import PART_BYTES
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
        assert page.result(timeout=PATIENCE_SECONDS).status_code == 503
        assert waiting() == 0


def test_a_page_whose_reader_has_left_asks_for_nothing(app, admin, reader):
    browser, connection = reader
    browser.close()
    answer = admin.client.get("/console/collections", environ_overrides=connection)
    assert (answer.status_code, answer.data) == (503, b"")


class Looks:
    """A clock that stands still, and says an hour more after it was looked at `left` times."""

    def __init__(self):
        self.left = 10**6

    def __call__(self):
        self.left -= 1
        return datetime.now(UTC) + timedelta(hours=int(self.left < 0))


@pytest.fixture
def looks(app, client, monkeypatch):
    """The clock by which keys end, of a service with a collection whose page is made of an answer in several parts."""
    assert client.post("/collections", json={"name": "long"}).status_code == 201
    document = {"id": "long", "text": "word " * (PART_BYTES // 2), "embedding": [1.0, 0.0]}
    assert client.post("/collections/long/documents", json={"documents": [document]}).status_code == 202
    looks = Looks()
    stored = StoredKeys(app.extensions["rag.service"].catalog)
    access = Authentication(AccessSettings(access="keys"), "127.0.0.1", stored, looks)
    monkeypatch.setitem(app.extensions, "rag.access", access)
    return looks


def test_a_key_that_ends_while_its_page_is_made_leads_to_the_sign_in(app, looks, anybody):
    access = app.extensions["rag.access"]
    _, text = access.stored.create(
        "reader", Grant(frozenset({Scope.READ})), expires_at=datetime.now(UTC) + timedelta(minutes=30)
    )
    assert anybody.sign_in(text).status_code == 303
    answers = []
    while not answers or answers[-1].status_code != 200:
        looks.left = len(answers)
        answers.append(anybody.get("/collections/long"))
        assert len(answers) < 200
    assert {each.status_code for each in answers[:-1]} == {303}
    assert {each.location for each in answers[:-1]} == {"/console/sign-in?next=/collections/long&ended=key_expired"}
