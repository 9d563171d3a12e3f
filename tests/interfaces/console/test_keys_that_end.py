"""A key may end at any moment while a page is made: its reader is asked to sign in again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from wrapper.access.authentication import Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.web.callers import PART_BYTES

PAGE = "/collections/long"


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
        answers.append(anybody.get(PAGE))
        assert len(answers) < 200
    assert {each.status_code for each in answers[:-1]} == {303}
    assert {each.location for each in answers[:-1]} == {f"/console/sign-in?next={PAGE}&ended=key_expired"}
