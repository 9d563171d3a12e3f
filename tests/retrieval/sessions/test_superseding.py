"""When several notes replace one note at the same time, one succeeds: two workers on one catalogue."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from providers.base import ProviderContext
from providers.local import LocalProvider
from registry.provider_registry import ProviderRegistry
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.search.corpus import Corpus, OpenCorpus
from retrieval.sessions.notes import Notes
from retrieval.sessions.sessions import Sessions
from schemas.access.owners import Asker
from schemas.contracts.sessions import NoteSupersededError
from schemas.errors import NotFoundError
from tests.retrieval.letter_embedding import LetterEmbedding
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.querying.planner import Planner
from wrapper.store import Store
from wrapper.writing import Writing

CALLERS = 6


class NoIndex:
    """An indexer that never indexes anything."""

    def notify(self) -> None: ...

    def wait(self, outbox_id, seconds) -> bool:
        return False


class OneProvider(Corpus):
    def __init__(self, provider):
        self._provider = provider

    def open(self):
        return OpenCorpus(self._provider, ProviderRegistry())


class Texts:
    """The part of `TextCollections` that notes use; `before_write` is called when everything is read and embedded."""

    def __init__(self, corpus, before_write):
        self.corpus = corpus
        self._before_write = before_write

    def writer(self, name):
        self._before_write()
        return CollectionWriter(self.corpus.open().provider, name, lambda info: LetterEmbedding())


@pytest.fixture
def worker(catalogs):
    """`worker(before_write)`: the notes as one worker has them."""

    def open_worker(before_write=lambda: None):
        catalog = catalogs()
        writing = Writing(
            catalog, NoIndex(), free_disk_mb=lambda: 1e9, disk_floor_mb=0, write_wait_seconds=0, waiting_writers=1
        )
        store = Store(catalog, Planner(catalog, NoIndex()), NoIndex(), writing, HeldDocuments())
        provider = LocalProvider({}, ProviderContext(storage=store))
        return Notes(Texts(OneProvider(provider), before_write), Sessions(catalog), "notes")

    return open_worker


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_of_six_callers_in_two_workers_one_supersedes_and_the_others_are_told_which(worker):
    together = Barrier(CALLERS)
    first = worker()
    first.start("one", asker=Asker())
    old = first.note("Ada knows.", asker=Asker())
    workers = [worker(together.wait), worker(together.wait)]

    def supersede(number):
        try:
            return workers[number % 2].note(f"Number {number} knows.", supersedes=old.id, asker=Asker())
        except NoteSupersededError as error:
            return error

    with ThreadPoolExecutor(CALLERS) as pool:
        outcomes = list(pool.map(supersede, range(CALLERS)))
    refused = [each for each in outcomes if isinstance(each, NoteSupersededError)]
    (won,) = [each for each in outcomes if each not in refused]
    assert [each.details for each in refused] == [{"note": old.id, "superseded_by": won.id}] * (CALLERS - 1)
    assert [each.id for each in first.newest(10, asker=Asker())] == [won.id]


def test_two_owners_neither_see_nor_supersede_nor_end_each_other_s(worker):
    notes = worker()
    sessions = {owner: notes.start("the same", asker=Asker(owner)) for owner in ("ada", "grace", "")}
    made = {owner: notes.note("The same words.", asker=Asker(owner)) for owner in sessions}
    for owner, session in sessions.items():
        assert [each.id for each in notes.newest(10, asker=Asker(owner))] == [made[owner].id]
        assert made[owner].session_id == session.id
        for other in sessions.keys() - {owner}:
            with pytest.raises(NotFoundError):
                notes.note("x", supersedes=made[other].id, asker=Asker(owner))
            with pytest.raises(NotFoundError):
                notes.note("x", sessions[other].id, asker=Asker(owner))
            with pytest.raises(NotFoundError):
                notes.end(sessions[other].id, asker=Asker(owner))
    assert notes.end(asker=Asker("ada")).session.id == sessions["ada"].id
    assert notes.note("still open", asker=Asker("grace")).session_id == sessions["grace"].id
