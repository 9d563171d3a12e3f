"""Folders of the data directory are chosen by administrators: another's connection may keep its documents there."""

import pytest

from providers.base import ProviderContext
from registry.candidates import Candidate, Candidates
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from schemas.access.callers import ANYBODY, Caller, Kind, Scope, acting_as, as_service
from schemas.connections import Connection
from schemas.errors import ScopeMissingError

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
