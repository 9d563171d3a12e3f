"""Whose the things are that callers make: for each kind of thing, who may read, list, use, change and delete it,
private and shared, with real keys. The tables behind them are tested on both databases."""

import io
from datetime import timedelta
from types import SimpleNamespace

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Caller, Kind, Scope
from schemas.access.narrowing import view_sent
from schemas.access.owners import OPEN, OWNS_NOTHING
from schemas.settings import AccessSettings, RetrievalSettings
from tests.interfaces.access.conftest import mcp, rows_of
from tests.support.apps import models_of, running_app
from tests.support.live import eventually

ADMIN_KEY = "the-key-of-an-administrator"
SCOPES = frozenset({Scope.WRITE, Scope.CHAT, Scope.CONNECT})
REPORT = {"instance": "one:1", "state": "watching", "collection": "docs"}
HIDDEN, FORBIDDEN, ALLOWED = 404, 403, 200


def asking(app, key, owner, **headers):
    """Return a client of a caller, which sends these headers with each request, too."""
    client = app.test_client()
    client.environ_base |= {"HTTP_AUTHORIZATION": f"Bearer {key}", **headers}
    client.key, client.owner = key, owner
    return client


def call(who, tool, /, **arguments):
    return mcp(who, tool, **arguments).json["result"]


@pytest.fixture(scope="module")
def callers(tmp_path_factory, models):
    """A service with keys: `ada`, `bob` with the same rights, `rotated` (Ada's key after a rotation), `narrow` for the
    collections `narrow*` only, `beside` with the same collections as `narrow`, and `admin`."""
    with running_app(
        tmp_path_factory.mktemp("owners"),
        registry=models_of(models, topic="rule"),
        retrieval=RetrievalSettings(mcp_write=True),
        access=AccessSettings(access="keys", api_key=ADMIN_KEY),
    ) as app:
        stored = app.extensions["rag.access"].stored

        def key(name, collections=None):
            made, text = stored.create(name, Grant(SCOPES, collections))
            return made, asking(app, text, made.caller().owner)

        first, ada = key("ada")
        _, bob = key("bob")
        _, narrow = key("narrow", ("narrow*",))
        _, beside = key("beside", ("narrow*",))
        successor, text = stored.rotate(first.id, grace=timedelta(days=1))
        rotated = asking(app, text, successor.caller().owner)
        assert rotated.owner == ada.owner
        admin = asking(app, ADMIN_KEY, OPEN)
        yield SimpleNamespace(ada=ada, bob=bob, rotated=rotated, narrow=narrow, beside=beside, admin=admin, app=app)


def through_another_service(app, who):
    """Return a caller as who asks through a service that leads back to the one under test."""
    view = view_sent(Caller("x", "x", Kind.KEY, SCOPES), app.extensions["rag.service"].id)
    return asking(app, who.key, who.owner, HTTP_RAG_WITHIN=view)


class Kept:
    """What a route keeps. `listing` names the list that the route gives, and what each in it is called by."""

    route: str
    listing: tuple[str, str]
    deleted_by_owner = False
    """Whether a deletion may name whose thing is meant."""

    @property
    def name(self):
        return type(self).__name__

    def read(self, who, made):
        return who.get(f"{self.route}/{made}").status_code

    def delete(self, who, made, owner=None):
        named = {"owner": owner} if owner and self.deleted_by_owner else {}
        return who.delete(f"{self.route}/{made}", query_string=named).status_code


class Listed(Kept):
    def listed(self, who, made):
        many, called = self.listing
        return made in {each[called] for each in who.get(f"{self.route}?limit=100").json[many]}


class Conversation(Kept):
    route, deleted_by_owner = "/api/chat", True

    def make(self, who, name, shared):
        body = {"message": "Hi", "conversationId": name, **({"shared": True} if shared else {})}
        assert who.post("/api/chat", json=body).status_code == 200
        return name


class Watcher(Listed):
    route, listing, deleted_by_owner = "/api/watchers", ("watchers", "name"), True

    def make(self, who, name, shared):
        assert who.put(f"/api/watchers/{name}", json={**REPORT, "shared": shared}).status_code == 200
        return name


class Job(Listed):
    route, listing = "/api/jobs", ("jobs", "id")

    def make(self, who, name, shared):
        data = {"file": (io.BytesIO(b"# A\n\nwords"), f"{name}.md"), "collection": f"narrow-{name}"}
        answer = who.post("/api/documents", data=data | ({"shared": "true"} if shared else {}))
        assert answer.status_code == 202, answer.json
        return answer.json["job"]["id"]


class Connection(Listed):
    route, listing = "/api/connections", ("connections", "id")

    def make(self, who, name, shared):
        body = {"id": name, "type": "rag", "provider": "local", "config": {}, "shared": shared}
        answer = who.post("/api/connections", json=body)
        assert answer.status_code == 201, answer.json
        return name

    def use(self, who, made):
        statuses = {who.get(f"/api/connections/{made}/{what}").status_code for what in ("health", "collections")}
        body = {"userMessage": "Hi", "selectedCollections": [{"service": made, "name": "nothing"}]}
        [asked] = who.post("/api/collect", json=body).json["receipt"]["collections"]
        assert (asked["error"] == f"Connection '{made}' not found") == (statuses == {HIDDEN}), asked
        [status] = statuses
        return status

    def change(self, who, made):
        return who.put(f"/api/connections/{made}", json={"config": {}, "display_name": "Changed"}).status_code


class Session:
    name = "Session"

    def make(self, who, name, shared):
        return call(who, "session_start", name=name, shared=shared)["structuredContent"]["session_id"]

    def change(self, who, made):
        return self._status(call(who, "session_note", note="One more.", session_id=made))

    def delete(self, who, made, owner=None):
        return self._status(call(who, "session_end", session_id=made))

    def _status(self, result):
        if not result.get("isError"):
            return ALLOWED
        return FORBIDDEN if "belongs to another" in result["content"][0]["text"] else HIDDEN


class Note:
    name = "Note"

    def make(self, who, name, shared):
        session_id = call(who, "session_start", name=name, shared=shared)["structuredContent"]["session_id"]
        noted = call(who, "session_note", note=f"Of {name}.", session_id=session_id)
        return noted["structuredContent"]["note_id"]

    def read(self, who, made):
        return who.get(f"/collections/rag-notes/documents/{made}").status_code

    def listed(self, who, made):
        asked = {"query": "Of whom?", "oracles": ["persona"], "limit": 50, "min_relevance": 0}
        by_route = {each["chunk_id"] for each in who.post("/api/search", json=asked).json["results"]}
        by_tool = {each["chunk_id"] for each in call(who, "rag_query", **asked)["structuredContent"]["results"]}
        assert by_route == by_tool
        return made in by_route

    def change(self, who, made):
        call(who, "session_start", name="another")
        result = call(who, "session_note", note=f"In place of {made}, by {who.owner}.", supersedes=made)
        return Session()._status(result)


KINDS = (Conversation(), Watcher(), Job(), Connection(), Session(), Note())


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["private", "shared"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_who_may_do_what_with_whose_things(callers, kind, shared):
    others = ALLOWED if shared else HIDDEN
    sees = {"ada": ALLOWED, "rotated": ALLOWED, "bob": others, "admin": ALLOWED, "narrow": HIDDEN}
    if kind.name == "Connection":
        sees["narrow"] = others  # nothing of a collection is in a connection
    changes = {who: FORBIDDEN if who in ("bob", "narrow") and seen == ALLOWED else seen for who, seen in sees.items()}
    made = kind.make(callers.ada, f"{kind.name}-{shared}".lower(), shared)
    for who, expected in sees.items():
        client = getattr(callers, who)
        for deed in ("read", "use"):
            if hasattr(kind, deed):
                assert getattr(kind, deed)(client, made) == expected, (who, deed)
        if hasattr(kind, "listed"):
            assert kind.listed(client, made) is (expected == ALLOWED), (who, "listed")
    for deed in ("change", "delete"):
        # Those who may not come first: who may deletes it.
        for who in ("bob", "narrow"):
            if hasattr(kind, deed):
                assert getattr(kind, deed)(getattr(callers, who), made) == changes[who], (who, deed)
    for number, who in enumerate(("ada", "rotated", "admin")):
        client = getattr(callers, who)
        made = kind.make(callers.ada, f"{kind.name}-{shared}-{number}".lower(), shared)
        for deed in ("change", "delete"):
            if hasattr(kind, deed):
                more = {"owner": callers.ada.owner} if deed == "delete" and who == "admin" else {}
                assert getattr(kind, deed)(client, made, **more) == ALLOWED, (who, deed)


@pytest.mark.parametrize("kind", [each for each in KINDS if hasattr(each, "read")], ids=lambda kind: kind.name)
def test_what_is_shared_reaches_those_who_see_the_same_collections_and_those_who_see_all(callers, kind):
    made = kind.make(callers.narrow, f"{kind.name}-of-narrow".lower(), True)
    assert [kind.read(each, made) for each in (callers.narrow, callers.beside, callers.bob)] == [ALLOWED] * 3
    if hasattr(kind, "listed"):
        assert kind.listed(callers.beside, made)
    hidden = kind.make(callers.narrow, f"{kind.name}-hidden".lower(), False)
    assert [kind.read(each, hidden) for each in (callers.beside, callers.bob)] == [HIDDEN] * 2


def test_one_s_own_comes_before_what_others_share_and_an_administrator_deletes_nobody_else_s_by_a_repeat(callers):
    for kind, read in (
        (Conversation(), lambda who, **of: who.get("/api/chat/ours", query_string=of).json),
        (Watcher(), lambda who, **of: who.get("/api/watchers/ours", query_string=of).json),
    ):
        kind.make(callers.ada, "ours", True)
        assert read(callers.bob)["owner"] == callers.ada.owner
        kind.make(callers.bob, "ours", False)
        assert (read(callers.bob)["owner"], read(callers.bob)["shared"]) == (callers.bob.owner, False)
        assert read(callers.bob, owner=callers.ada.owner)["owner"] == callers.ada.owner
        assert read(callers.ada)["owner"] == callers.ada.owner
        assert kind.delete(callers.bob, "ours", callers.ada.owner) == FORBIDDEN
        assert kind.delete(callers.bob, "ours") == ALLOWED
        assert kind.delete(callers.bob, "ours") == FORBIDDEN, "now it is Ada's that is meant"
        kind.make(callers.admin, "ours", False)
        assert [kind.delete(callers.admin, "ours") for _ in range(2)] == [ALLOWED, FORBIDDEN]
        assert kind.read(callers.ada, "ours") == ALLOWED


def test_sharing_is_changed_by_the_owner_later(callers):
    conversation, connection = Conversation(), Connection()
    conversation.make(callers.ada, "later", False)
    for shared, status in ((True, ALLOWED), (None, ALLOWED), (False, HIDDEN)):
        body = {"message": "And?", "conversationId": "later", **({} if shared is None else {"shared": shared})}
        assert callers.ada.post("/api/chat", json=body).status_code == 200
        assert conversation.read(callers.bob, "later") == status
    assert len(callers.ada.get("/api/chat/later").json["messages"]) == 8
    connection.make(callers.ada, "later", False)
    for shared, status in ((True, ALLOWED), (None, ALLOWED), (False, HIDDEN)):
        answer = callers.ada.put("/api/connections/later", json={"config": {}, "shared": shared})
        assert answer.status_code == 200, answer.json
        assert connection.read(callers.bob, "later") == status


def test_a_message_to_a_shared_conversation_begins_one_of_one_s_own(callers, models_up):
    callers.ada.post("/api/chat", json={"message": "The word is zebra.", "conversationId": "ours-2", "shared": True})
    models_up.requests.clear()
    callers.bob.post("/api/chat", json={"message": "Which word?", "conversationId": "ours-2"})
    assert not any(b"zebra" in bytes(str(each.body), "utf-8") for each in models_up.requests)
    assert len(callers.ada.get("/api/chat/ours-2").json["messages"]) == 2
    assert callers.bob.get("/api/chat/ours-2").json["owner"] == callers.bob.owner


def test_a_taken_id_tells_nothing_of_the_connection_and_nobody_writes_notes_past_the_tools(callers):
    Connection().make(callers.ada, "taken", False)
    body = {"id": "taken", "type": "rag", "provider": "local"}
    answer = callers.bob.post("/api/connections", json=body)
    assert (answer.status_code, answer.json["details"]) == (409, {"connection": "taken"})
    assert callers.bob.get("/api/connections/taken").status_code == 404
    Note().make(callers.ada, "guarded", False)
    documents = [{"id": "forged", "text": "x", "embedding": [1.0] * 4, "metadata": {"owner": callers.bob.owner}}]
    refused = callers.ada.post("/collections/rag-notes/documents", json={"documents": documents})
    assert refused.status_code == 403


def test_statistics_are_of_one_s_own_searches_and_none_of_those_through_another_service(callers):
    def counted(who, **asked):
        return call(who, "rag_context_stats", **asked)["structuredContent"]["totalQueries"]

    before = {who: counted(getattr(callers, who)) for who in ("ada", "bob", "admin")}
    for who, searches in (("ada", 2), ("bob", 1)):
        for _ in range(searches):
            assert not call(getattr(callers, who), "rag_context_search", query="What?").get("isError")
    after = {who: counted(getattr(callers, who)) for who in before}
    assert {who: after[who] - before[who] for who in before} == {"ada": 2, "bob": 1, "admin": 3}
    assert counted(callers.rotated) == after["ada"]
    through = [through_another_service(callers.app, getattr(callers, who)) for who in ("ada", "bob")]
    before = counted(callers.ada)
    assert not call(through[0], "rag_context_search", query="What?").get("isError")
    assert [counted(who) for who in (*through, callers.ada)] == [0, 0, before]
    assert rows_of(callers.app, "SELECT count(*) FROM search_metrics WHERE owner = ?", OWNS_NOTHING) == [(0,)]


def asked_words(who, message):
    """Return the words with which collections are asked for a message of the conversation `topics`."""
    selected = [{"service": "local", "name": "nothing"}]
    body = {"userMessage": message, "conversationId": "topics", "selectedCollections": selected}
    return who.post("/api/collect", json=body).json["receipt"]["query_text"].lower()


def test_the_topic_of_a_conversation_is_its_caller_s_and_through_another_service_there_is_none(callers):
    ada, bob = (through_another_service(callers.app, who) for who in (callers.ada, callers.bob))
    asked_words(ada, "What is Kubernetes?")
    for who in (ada, bob):
        assert "kubernetes" not in asked_words(who, "Does it integrate with OpenShift?")
    assert rows_of(callers.app, "SELECT id FROM conversation_topics WHERE owner = ?", OWNS_NOTHING) == []
    asked_words(callers.ada, "What is InstructLab?")
    assert "instructlab" in asked_words(callers.ada, "Does it integrate with OpenShift?")
    assert "instructlab" not in asked_words(callers.bob, "Does it integrate with OpenShift?")


def test_jobs_work_for_their_owner(callers):
    made = Job().make(callers.narrow, "works", False)
    eventually(lambda: callers.narrow.get(f"/api/jobs/{made}").json["status"] == "done")
