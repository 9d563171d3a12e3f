"""A streamed answer ends when the rights by which it was begun have ended or changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import ANYBODY, SKEW_SECONDS, Caller, Kind, Limits, Scope
from schemas.access.narrowing import HEADER, view_sent
from schemas.errors import UnauthorizedError
from schemas.settings import AccessSettings
from tests.wrapper.web.line_bodies import Lines
from wrapper.access.authentication import FRESH_SECONDS, Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.web.callers import PART_BYTES, AnswerBrokenOffError

READ = frozenset({Scope.READ})
DOCUMENTS = [{"id": f"d{n}", "text": "a", "embedding": [1.0, 0.0], "metadata": {"n": n}} for n in range(450)]
"""More than two blocks of an export."""


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def service(limited_app, clock):
    with limited_app() as service:
        stored = StoredKeys(service.app.extensions["rag.service"].catalog, clock.now)
        service.app.extensions["rag.access"] = Authentication(
            AccessSettings(access="keys"), "127.0.0.1", stored, clock.now, clock, service_id="here"
        )
        yield service


@pytest.fixture
def access(service):
    return service.app.extensions["rag.access"]


@pytest.fixture
def exporting(service):
    """`exporting(key, **headers)`: the parts of an export that has begun, of a collection `docs`."""
    client, writer = service.plain_client(), service.key("manage")
    client.post("/collections", json={"name": "docs"}, headers=writer)
    client.post("/collections/docs/documents", json={"documents": DOCUMENTS}, headers=writer)

    def begin(key, **headers):
        answer = client.get("/collections/docs/export", headers={"Authorization": f"Bearer {key}", **headers})
        parts = iter(answer.response)
        assert b'"d0"' in next(parts)
        return parts

    return begin


def _made(access, **changes):
    return access.stored.create("reader", Grant(READ, ("docs",)), **changes)


def _of(*values):
    return Grant(READ, ("docs",), {"n": {"$ne": values[0]}}) if values else Grant(READ, ("docs",))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_of(), Grant(READ, ("other",))),
        (_of(), Grant(frozenset({Scope.CHAT}), ("docs",))),
        (_of(), Grant(READ, ("docs",), {"n": {"$lt": 3}})),
        (_of(), Grant(READ, None)),
        (_of(1), _of(True)),
    ],
    ids=["collections", "scopes", "filter", "all collections", "a value that Python holds equal"],
)
def test_a_change_of_a_keys_rights_ends_its_streams(access, exporting, clock, before, after):
    key, text = access.stored.create("reader", before)
    parts = exporting(text)
    access.stored.change(key.id, lambda key: replace(key, grant=after))
    clock.seconds += FRESH_SECONDS
    with pytest.raises(AnswerBrokenOffError):
        list(parts)


def test_an_export_of_large_documents_ends_within_a_block_of_them(access, service, clock):
    """Its reader may take minutes for one block."""
    client, writer = service.plain_client(), service.key("manage")
    client.post("/collections", json={"name": "large"}, headers=writer)
    large = [{"id": f"d{n}", "text": "word " * (PART_BYTES // 5), "embedding": [1.0, 0.0]} for n in range(6)]
    client.post("/collections/large/documents", json={"documents": large}, headers=writer)
    key, text = access.stored.create("reader", Grant(READ, ("large",)))
    answer = client.get("/collections/large/export", headers={"Authorization": f"Bearer {text}"})
    parts = iter(answer.response)
    taken = [next(parts), next(parts)]
    access.stored.revoke(key.id)
    clock.seconds += FRESH_SECONDS
    with pytest.raises(AnswerBrokenOffError):
        next(parts)
    assert max(map(len, taken)) <= PART_BYTES


def test_a_stream_of_a_key_goes_on_while_it_has_the_same_rights(access, exporting, clock):
    key, text = _made(access)
    parts = exporting(text)
    access.stored.change(key.id, lambda before: replace(before, name="renamed"))
    clock.seconds += FRESH_SECONDS
    assert b'"d449"' in b"".join(parts)


def test_a_stream_of_a_key_ends_with_it(access, exporting, clock):
    _, text = _made(access, expires_at=clock.now() + timedelta(seconds=60))
    parts = exporting(text)
    clock.seconds += 60
    with pytest.raises(AnswerBrokenOffError, match="expired"):
        list(parts)


def test_a_stream_within_a_view_that_was_sent_along_goes_on(access, exporting, clock):
    key, text = _made(access)
    view = view_sent(Caller("other", "other", Kind.KEY, READ, collections=("doc*",)), "here")
    first, second = (exporting(text, **{HEADER: view}) for _ in range(2))
    clock.seconds += FRESH_SECONDS
    assert b'"d449"' in b"".join(first)
    access.stored.change(key.id, lambda before: replace(before, grant=Grant(READ, ("other",))))
    clock.seconds += FRESH_SECONDS
    with pytest.raises(AnswerBrokenOffError):
        list(second)


LINES = [orjson.dumps({"id": f"n{n}", "text": "a", "embedding": [1.0, 0.0]}) + b"\n" for n in range(3_000)]


@pytest.fixture
def stream(service, access, clock):
    """`stream(path, then)`: the answer to a stream of lines, and how many are stored; half-way `then(key)` is done."""
    client, writer = service.plain_client(), service.key("manage")
    client.post("/collections", json={"name": "docs"}, headers=writer)
    key, text = access.stored.create("writer", Grant(frozenset({Scope.MANAGE}), ("docs",)))

    def stream(path, then):
        def at_half():
            then(key)
            clock.seconds += FRESH_SECONDS

        answer = client.post(
            f"/collections/docs/{path}",
            input_stream=Lines(LINES, at_half),
            content_type="application/x-ndjson",
            content_length=sum(map(len, LINES)),
            headers={"Authorization": f"Bearer {text}"},
        )
        return answer, client.get("/collections/docs/documents/count", headers=writer).json["count"]

    return stream


def limited(stored, key):
    grant = replace(key.grant, limits=Limits(documents=1))
    stored.change(key.id, lambda before: replace(before, grant=grant))


@pytest.mark.parametrize("path", ["documents", "import"])
@pytest.mark.parametrize(
    ("then", "told"),
    [(lambda stored, key: stored.revoke(key.id), (401, "key_revoked")), (limited, (507, "quota_exceeded"))],
    ids=["revoked", "limited"],
)
def test_a_stream_of_lines_goes_on_with_the_rights_and_limits_of_now(stream, access, path, then, told):
    answer, stored = stream(path, lambda key: then(access.stored, key))
    assert (answer.status_code, answer.json["code"]) == told
    assert 0 < answer.json["details"]["count"] == stored < len(LINES)


def test_who_asks_an_open_service_within_a_view_has_no_key_that_could_end(access):
    view = view_sent(Caller("other", "other", Kind.KEY, READ, collections=("docs",)), "here")
    asking = access.within(ANYBODY, view)
    assert access.still(asking, view) is asking


def test_a_users_stream_ends_with_their_token(access, clock):
    """As the verifier does, it allows for a clock of the provider that is behind."""
    user = Caller("user:ada", "Ada", Kind.USER, READ, expires_at=clock.now())
    clock.seconds += SKEW_SECONDS - 1
    access.still(user)
    clock.seconds += 1
    with pytest.raises(UnauthorizedError) as refused:
        access.still(user)
    assert refused.value.code == "key_expired"
