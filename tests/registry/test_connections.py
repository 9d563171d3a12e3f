"""Named connections: stored, changed, opened, and never shown with a secret. Folders of the data directory are chosen by
administrators: another's connection may keep its documents there."""

import base64
import json
from dataclasses import replace
from urllib.parse import quote

import orjson
import pytest
import structlog

from providers.base import ProviderContext, RagProvider, SupportsSearch
from registry.candidates import Candidate, Candidates
from registry.live_connections import MAX_LIVE
from registry.placeholders.resolving import SERVICE_KEYS, Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import ConnectionNotFoundError, StoredConnections
from schemas.access.callers import ANYBODY, SERVICE, Caller, Kind, Scope, acting_as, as_service
from schemas.connections import Connection, InvalidConfigurationError
from schemas.errors import ConfigurationError, ConflictError, InvalidInputError, ScopeMissingError, UnavailableError
from schemas.storage.erasure import Target
from schemas.where import EVERYTHING
from schemas.wire.connecting import connections as spelt

SECRET = "sk-planted"


def words(connection_id="words", **config):
    return Connection(connection_id, "embedding", "words", config)


def test_built_in_ones_come_first_and_cannot_be_changed_or_deleted(connections):
    connections.create(words("b"))
    connections.create(words("a"))
    assert [each.id for each in connections.all()] == ["local", "default", "a", "b"]
    with pytest.raises(ConflictError, match="built-in"):
        connections.change("local", config={})
    with pytest.raises(ConflictError, match="built-in"):
        connections.delete("local")


def test_a_connection_stored_by_one_worker_is_found_by_all(connections, open_connections):
    connections.create(words(model="words-2"))
    other = open_connections()
    assert other.find("words").config == {"model": "words-2"}
    other.change("words", config={"model": "words-3"})
    assert connections.open("words", "embedding").model == "words-3"
    connections.delete("words")
    with pytest.raises(ConnectionNotFoundError):
        other.find("words")


def test_a_taken_id_is_a_conflict_and_so_is_another_kind_and_an_unknown_one_is_not_found(connections):
    connections.create(words())
    for taken in ("words", "local"):
        with pytest.raises(ConflictError, match=f"'{taken}' already"):
            connections.create(words(taken))
    with pytest.raises(ConflictError, match="is of type rag, not embedding") as caught:
        connections.open("local", "embedding")
    assert caught.value.details["allowed"] == ["default", "words"]
    for do in (
        lambda: connections.change("x", config={}),
        lambda: connections.delete("x"),
        lambda: connections.find("x"),
    ):
        with pytest.raises(ConnectionNotFoundError, match="Connection 'x' not found"):
            do()


@pytest.mark.parametrize(
    ("field", "connection"),
    [
        *(("id", words(name)) for name in ("", "a b", "../x", "-a", "a" * 65, "ä", "a\n", "health", "test")),
        *(("display_name", replace(words(), display_name=n)) for n in ("", "x" * 201, "nul\x00", "line\nbreak")),
    ],
    ids=repr,
)
def test_an_id_is_a_plain_name_and_a_display_name_can_be_printed(connections, field, connection):
    with pytest.raises(InvalidInputError) as caught:
        connections.create(connection)
    assert caught.value.details["field"] == field


def test_a_wrong_a_giant_and_an_unsafe_configuration_are_refused(connections):
    with pytest.raises(InvalidConfigurationError) as caught:
        connections.create(words(model=7, speed="high"))
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/model", "/speed"]
    assert connections.all()[-1].id == "default"
    connections.create(words(model="words-1"))
    with pytest.raises(InvalidConfigurationError):
        connections.change("words", config={"model": 7})
    assert connections.find("words").config == {"model": "words-1"}
    with pytest.raises(InvalidInputError, match="larger than"):
        connections.create(words(model="x" * 70_000))
    with pytest.raises(InvalidConfigurationError) as caught:
        connections.create(words(api_key=SECRET))
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/api_key"]
    assert SECRET not in caught.value.message + str(caught.value.details)


def test_a_secret_is_resolved_at_use_and_shown_only_as_what_it_refers_to(connections, database):
    with structlog.testing.capture_logs() as logs:
        connections.create(words(api_key="${WORDS_API_KEY}"))
        assert connections.open("words", "embedding").config["api_key"] == SECRET
        shown = connections.shown(connections.find("words"))
    assert shown.config == {}
    assert shown.secrets == {"api_key": ["WORDS_API_KEY"]}
    with database.read() as transaction:
        stored = transaction.rows("SELECT * FROM connections")
    assert SECRET not in str(stored) + orjson.dumps(spelt.connection(shown, None)).decode() + str(logs)


def test_a_secret_is_removed_by_an_empty_string_and_does_not_move_to_another_provider(connections):
    assert connections.create(words(api_key="")).config == {}
    connections.change("words", config={"api_key": "${WORDS_API_KEY}"})
    assert connections.change("words", config={"api_key": ""}).config == {}
    connections.change("words", config={"api_key": "${WORDS_API_KEY}"})
    assert connections.change("words", kind="rag", provider="shelf", config={}).config == {}


@pytest.fixture
def openai(open_connections):
    """Connections with one of the real OpenAI provider, which has a URL, and variables for its key and host."""
    placeholders = Placeholders({"WORDS_API_KEY": SECRET, "OTHER_HOST": "other", "other_HOST": "another"})
    connections = open_connections(placeholders, registry=discover(ProviderRegistry(), strangers=[]))
    config = {"url": "http://first:8000/v1", "api_key": "${WORDS_API_KEY}"}
    connections.create(Connection("there", "llm", "openai", config))
    return connections


@pytest.mark.parametrize(
    "url", ["http://second:8000/v1", "http://first:8001/v1", "https://first:8000/v1", "http://${OTHER_HOST}:8000", None]
)
def test_a_secret_does_not_move_to_another_host_unless_it_is_given_again(openai, url):
    before = openai.find("there")
    with pytest.raises(InvalidConfigurationError, match="api_key must be given again") as caught:
        openai.change("there", config={"url": url})
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/api_key"]
    assert openai.find("there") == before
    given = openai.change("there", config={"url": url, "api_key": "${WORDS_API_KEY}"})
    assert given.config["api_key"] == "${WORDS_API_KEY}"


def test_a_secret_stays_at_its_host_and_a_stored_placeholder_in_another_field_is_refused(openai):
    changed = openai.change("there", config={"url": "http://FIRST:8000/v2/", "model": "m", "api_key": None})
    assert changed.config["api_key"] == "${WORDS_API_KEY}"
    assert openai.change("there", config={"url": "http://second", "api_key": ""}).config == {"url": "http://second"}
    openai.change("there", config={"url": "http://${OTHER_HOST}", "api_key": "${WORDS_API_KEY}"})
    with pytest.raises(InvalidConfigurationError, match="api_key must be given again"):
        openai.change("there", config={"url": "http://${other_HOST}"})
    openai._stored.add(Connection("old", "llm", "openai", {"model": "${WORDS_API_KEY}"}))
    with pytest.raises(ConfigurationError, match="'old' cannot be used: Placeholders may stand in secrets") as caught:
        openai.open("old", "llm")
    assert caught.value.details["errors"][0]["pointer"] == "/model"


def test_the_services_own_keys_are_for_its_own_connections_only(open_connections):
    environ = {"RAG_CHAT_API_KEY": SECRET}
    own = Placeholders(environ, SERVICE_KEYS, (), own=frozenset())
    key = {"api_key": "${RAG_CHAT_API_KEY}"}
    given = [
        Connection("chat", "embedding", "words", key, origin="built-in"),
        Connection("declared", "embedding", "words", key, origin="declared"),
    ]
    connections = open_connections(Placeholders(environ), given, own_placeholders=own)
    assert connections.open("chat", "embedding").config["api_key"] == SECRET
    with pytest.raises(ConfigurationError, match="RAG_CHAT_API_KEY is not among those allowed"):
        connections.open("declared", "embedding")
    assert connections.redacted(f"a line with {SECRET} in it") == "a line with *** in it"


def test_no_message_of_a_connection_contains_values_of_its_placeholders(registry, open_connections):
    """Holds for errors of every method, the health report and the log."""

    class Talkative(RagProvider, SupportsSearch):
        id, display_name = "talkative", "Talkative"

        @classmethod
        def connection_schema(cls):
            return {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}

        def _fail(self):
            key = self.config["token"]
            basic = base64.b64encode(f"user:{key}".encode()).decode()
            said = f"{key}, {quote(key, safe='')}, Basic {basic}, {json.dumps(key)}"
            raise UnavailableError(f"It said {said}", reason=[said], error_type="network")

        def check(self):
            self._fail()

        def collections(self):
            self._fail()

        def search(self, collection, embedding, *, top_k=3, where=EVERYTHING):
            self._fail()

    registry.register(Talkative)
    planted = f'{SECRET}/with+signs \u00e4"'
    placeholders = Placeholders({"TALK_API_KEY": SECRET, "OTHER_API_KEY": planted})
    connections = open_connections(placeholders)
    for name in ("TALK_API_KEY", "OTHER_API_KEY"):
        connections.create(Connection(name.lower(), "rag", "talkative", {"token": f"${{{name}}}"}))
        provider = connections.open(name.lower(), "rag")
        for method, arguments in (("check", ()), ("collections", ()), ("search", ("docs", None))):
            with pytest.raises(UnavailableError) as caught:
                getattr(provider, method)(*arguments)
            masked = "It said ***, ***, Basic dXNlcj" if name == "TALK_API_KEY" else "It said ***, ***, Basic"
            assert caught.value.message.startswith(masked)
            said = f"{caught.value} {caught.value.details} {provider.health()}"
            basic = base64.b64encode(f"user:{provider.config['token']}".encode()).decode()
            for spelling in (SECRET, quote(planted, safe=""), json.dumps(planted)[1:-1], basic, basic[7:-4]):
                assert spelling not in said


def test_a_live_connection_is_kept_until_its_configuration_changes_and_serves_all_models(
    world, connections, open_connections
):
    live = connections.open("default", "embedding")
    for model in ("words-7", "${WORDS_API_KEY}", None):
        live.embed(["a"], model=model)
    assert connections.open("default", "embedding") is live
    assert [model for model, _ in world.embedded] == ["words-7", "${WORDS_API_KEY}", "words-1"]
    environ = {"WORDS_API_KEY": "key-1"}
    placeholders = Placeholders(environ, ("WORDS_*",), ())
    connections = open_connections(placeholders)
    connections.create(words(api_key="${WORDS_API_KEY}"))
    first = connections.open("words", "embedding")
    assert connections.open("words", "embedding") is first
    environ["WORDS_API_KEY"] = "key-2"
    assert connections.open("words", "embedding").config["api_key"] == "key-2"


@pytest.mark.parametrize("model", ["", " ", "a\nb", "x" * 257])
def test_an_invalid_model_is_refused_by_name(connections, model):
    with pytest.raises(InvalidInputError) as caught:
        connections.open("default", "embedding").embed(["a"], model=model)
    assert caught.value.details["field"] == "model"


@pytest.fixture
def closed(registry, monkeypatch):
    """The closed connections of the provider "words"."""
    closed = []
    monkeypatch.setattr(registry.provider("embedding", "words"), "close", lambda connection: closed.append(connection))
    return closed


def test_live_connections_are_bounded_and_the_least_recently_used_is_closed(connections, closed):
    kept = connections.open("default", "embedding")
    opened = []
    for number in range(MAX_LIVE + 3):
        connections.create(words(f"words-{number:03}"))
        opened.append(connections.open(f"words-{number:03}", "embedding"))
        assert connections.open("words-000", "embedding") is opened[0]
    assert closed == opened[1:4]
    assert connections.open("default", "embedding") is kept


def test_a_changed_or_deleted_connection_is_closed_at_once_and_one_that_another_worker_deleted_when_they_are_listed(
    connections, open_connections, closed
):
    connections.create(words())
    first = connections.open("words", "embedding")
    connections.change("words", config={"model": "words-2"})
    assert closed == [first]
    second = connections.open("words", "embedding")
    connections.delete("words")
    assert closed == [first, second]
    connections.create(words())
    live = connections.open("words", "embedding")
    open_connections().delete("words")
    connections.all()
    assert closed == [first, second, live]


def test_a_connection_made_again_is_not_the_deleted_one(connections):
    connections.create(words())
    before = connections.live("words", "embedding")
    connections.delete("words")
    connections.create(words())
    after = connections.live("words", "embedding")
    assert (before.provider is after.provider, before.identity == after.identity) == (False, False)
    connections.change("words", config={})
    assert connections.live("words", "embedding").identity != after.identity


def test_a_provider_that_is_gone_makes_its_connections_unusable_and_hides_all_of_them(
    registry, database, open_connections
):
    StoredConnections(database).add(Connection("old", "rag", "lost", {"url": "http://127.0.0.1:1", "password": SECRET}))
    registry.register_missing("rag", "lost", "lost_client is not installed: pip install lost-client")
    connections = open_connections()
    with pytest.raises(ConfigurationError, match="pip install lost-client"):
        connections.open("old", "rag")
    shown = connections.shown(connections.find("old"))
    assert (shown.config, SECRET in str(spelt.connection(shown, None))) == ({}, False)


def test_the_number_of_stored_connections_is_limited(connections, monkeypatch):
    monkeypatch.setattr("registry.stored_connections.MAX_STORED", 3)
    for number in range(3):
        connections.create(words(f"words-{number}"))
    with pytest.raises(ConflictError, match="You have 3 connections already") as caught:
        connections.create(words("words-3"))
    assert (caught.value.code, caught.value.details["limit"]) == ("too_many_connections", 3)
    with acting_as(replace(SERVICE, owner="key:bob")):
        connections.create(words("bobs"))
    connections.delete("words-0")
    connections.create(words("words-3"))


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_hold_all_connections_once_in_their_order(connections, limit):
    for name in ("b", "a", "C", "c"):
        connections.create(words(name))
    found, cursor = connections.page(limit)
    while cursor is not None:
        page, cursor = connections.page(limit, cursor)
        assert 1 <= len(page) <= limit
        found += page
    assert [each.id for each in found] == ["local", "default", "C", "a", "b", "c"]
    # A cursor stays good when its connection goes.
    _, cursor = connections.page(5)
    connections.delete("b")
    assert (cursor, [each.id for each in connections.page(5, cursor)[0]]) == ("b", ["c"])
    with pytest.raises(InvalidInputError) as caught:
        connections.page(5, "no cursor")
    assert caught.value.details["field"] == "cursor"


ANA, BOB = (
    Caller(name, name, Kind.KEY, frozenset({Scope.MANAGE, Scope.CONNECT}), owner=name) for name in ("ana", "bob")
)
CONFIG = {"path": "books"}


class CommittedByOthers:
    """A database whose writes all run in a thread of the service itself."""

    def __init__(self, database):
        self.open_part, self.read = database.open_part, database.read
        self.commit = as_service(database.commit)


@pytest.fixture
def open_folders(open_connections, tmp_path):
    """`open_folders(…)`: connections of a service with embedded Qdrants."""
    context = ProviderContext(data_dir=tmp_path)
    return lambda **where: open_connections(registry=discover(ProviderRegistry()), context=context, **where)


@pytest.fixture
def folders(open_folders):
    return open_folders()


def books(connection_id="books", **config):
    return Connection(connection_id, "rag", "qdrant", config or CONFIG)


def test_a_key_that_is_not_an_administrators_chooses_no_folder(folders):
    with acting_as(ANA):
        folders.create(books("server", url="http://127.0.0.1:6333"))
    attempts = (
        lambda: folders.create(books()),
        lambda: folders.change("server", config=CONFIG),
        lambda: Candidates(folders).test(Candidate("rag", "qdrant", CONFIG)),
        lambda: Candidates(folders).judge(Candidate("rag", "qdrant", CONFIG)),
    )
    for attempt in attempts:
        with acting_as(ANA), pytest.raises(ScopeMissingError) as caught:
            attempt()
        assert caught.value.details == {"scope": "admin", "field": "config.path"}
    assert folders.find("server").config == {"url": "http://127.0.0.1:6333"}


def test_a_change_is_the_callers_whoever_commits_it(database, open_folders):
    folders = open_folders(database=CommittedByOthers(database))
    with acting_as(ANA):
        folders.create(books("server", url="http://127.0.0.1:6333"))
        with pytest.raises(ScopeMissingError):
            folders.change("server", config=CONFIG)
    with acting_as(ANYBODY):
        assert folders.change("server", config=CONFIG).config == CONFIG


def test_administrators_the_open_service_and_those_who_name_a_server_choose(folders):
    with acting_as(ANA):
        made = folders.create(books("server", url="http://127.0.0.1:6333", path=None))
        assert folders.change("server", config={"url": "http://127.0.0.1:6334", "path": None}).of == made.of
        form = Candidate("rag", "qdrant", {"path": None, "url": "http://127.0.0.1:6333"})
        assert Candidates(folders).judge(form) == ([], [])
    with acting_as(ANYBODY):
        folders.create(books())
        assert folders.change("books", config={"path": "papers"}).config == {"path": "papers"}
        assert Candidates(folders).test(Candidate("rag", "qdrant", CONFIG)).success


def test_a_folder_of_before_goes_on_working_for_its_owner_alone(folders, database):
    StoredConnections(database).add(Connection("books", "rag", "qdrant", CONFIG, of=ANA.asker.made(shared=False)))
    with acting_as(ANA):
        assert folders.open("books", "rag").collections() == []
    with acting_as(BOB), pytest.raises(ScopeMissingError):
        folders.create(books("mine"))


def chatty(connection_id):
    return Connection(connection_id, "llm", "openai", {"url": "http://127.0.0.1:9/v1"})


def test_an_administrator_chooses_what_answers_everybody(open_folders, database):
    declared = replace(chatty("declared"), origin="declared")
    connections, other = open_folders(given=[declared]), open_folders(given=[declared])
    with acting_as(ANA):
        connections.create(chatty("anas"))
        assert connections.chat_model() is None
        for attempt in (
            lambda: connections.change("anas", chat_model=True),
            lambda: connections.change("x", config={}),
        ):
            with pytest.raises((ScopeMissingError, ConnectionNotFoundError)):
                attempt()
    connections.create(chatty("first"))
    for marked in ("first", "declared", "anas"):
        connections.change(marked, chat_model=True)
        with acting_as(BOB):
            assert (other.chat_model(), other.find(marked).kind) == (marked, "llm")
            assert marked in [each.id for each in other.all()]
    for caller in (ANA, BOB):  # what reads everybody's questions
        with acting_as(caller), pytest.raises(ScopeMissingError):
            connections.change("anas", config={"url": "http://127.0.0.1:10/v1"})
    assert connections._stored.erase(Target(owner="ana", is_private=True)) == 1
    assert connections.chat_model() is None
    connections.change("declared", chat_model=True)
    undeclared = open_folders(given=[])
    with acting_as(ANA):  # one of that name now is another one
        assert undeclared.chat_model() is None
        undeclared.create(chatty("declared"))
        assert undeclared.chat_model() is None
    undeclared.create(chatty("new"))
    assert undeclared.chat_model() == "new"
