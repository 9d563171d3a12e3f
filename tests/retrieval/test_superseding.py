"""Of several notes that replace one note at the same time, one does: two workers on one catalogue, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from providers.base import ProviderContext
from providers.local import LocalProvider
from registry.registry import ProviderRegistry
from retrieval.collection_writer import CollectionWriter
from retrieval.corpus import Corpus, OpenCorpus
from retrieval.notes import Notes
from retrieval.sessions import Sessions
from schemas.errors import NotFoundError
from schemas.owners import OPEN
from schemas.sessions import NoteSupersededError
from tests.retrieval.letter_embedding import LetterEmbedding
from wrapper.store import Store

CALLERS = 6


class NoIndex:
    """An indexer that never gets round to anything."""

    def notify(self) -> None: ...

    def wait(self, outbox_id, seconds) -> bool:
        return False


class OneProvider(Corpus):
    def __init__(self, provider):
        self._provider = provider

    def open(self):
        return OpenCorpus(self._provider, ProviderRegistry())


class Texts:
    """What notes ask of `TextCollections`. `before_write` is called when everything has been read and embedded."""

    def __init__(self, corpus, before_write):
        self.corpus = corpus
        self._before_write = before_write

    def embedding(self):
        return LetterEmbedding()

    def writer(self, name, embedding):
        self._before_write()
        return CollectionWriter(self.corpus.open().provider, name, embedding)


@pytest.fixture
def worker(catalogs):
    """`worker(before_write)`: the notes as one worker has them."""

    def open_worker(before_write=lambda: None):
        catalog = catalogs()
        store = Store(
            catalog,
            None,
            NoIndex(),
            free_disk_mb=lambda: 1e9,
            disk_floor_mb=0,
            write_wait_seconds=0,
            waiting_writers=1,
        )
        provider = LocalProvider({}, ProviderContext(storage=store))
        return Notes(Texts(OneProvider(provider), before_write), Sessions(catalog), "notes")

    return open_worker


def test_of_six_callers_in_two_workers_one_supersedes_and_the_others_are_told_which(worker):
    together = Barrier(CALLERS)
    first = worker()
    first.start("one", owner=OPEN)
    old = first.note("Ada knows.", owner=OPEN)
    workers = [worker(together.wait), worker(together.wait)]

    def supersede(number):
        try:
            return workers[number % 2].note(f"Number {number} knows.", supersedes=old.id, owner=OPEN)
        except NoteSupersededError as error:
            return error

    with ThreadPoolExecutor(CALLERS) as pool:
        outcomes = list(pool.map(supersede, range(CALLERS)))
    refused = [each for each in outcomes if isinstance(each, NoteSupersededError)]
    (won,) = [each for each in outcomes if each not in refused]
    assert [each.details for each in refused] == [{"note": old.id, "superseded_by": won.id}] * (CALLERS - 1)
    assert [each.id for each in first.newest(10, owner=OPEN)] == [won.id]


def test_two_owners_neither_see_nor_supersede_nor_end_each_other_s(worker):
    notes = worker()
    sessions = {owner: notes.start("the same", owner=owner) for owner in ("ada", "grace", OPEN)}
    made = {owner: notes.note("The same words.", owner=owner) for owner in sessions}
    for owner, session in sessions.items():
        assert [each.id for each in notes.newest(10, owner=owner)] == [made[owner].id]
        assert made[owner].session_id == session.id
        for other in sessions.keys() - {owner}:
            with pytest.raises(NotFoundError):
                notes.note("x", supersedes=made[other].id, owner=owner)
            with pytest.raises(NotFoundError):
                notes.note("x", sessions[other].id, owner=owner)
            with pytest.raises(NotFoundError):
                notes.end(sessions[other].id, owner=owner)
    assert notes.end(owner="ada").session.id == sessions["ada"].id
    assert notes.note("still open", owner="grace").session_id == sessions["grace"].id
