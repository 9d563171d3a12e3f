"""Questions that are answered from memory while two processes write: each answer is that of its own snapshot."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.where import EVERYTHING
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.documents import add, create, delete
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.words.held import HeldWords
from wrapper.catalog.words.index import WordIndex
from wrapper.catalog.words.merging import WordMerging

pytestmark = pytest.mark.slow

NAMES = ("one", "other")
WORDS = ["wing", "flow", "heat", "wall", "Maschinen", "天気", "getUserName", "reading"]
QUERIES = ["wing flow", "heat", "Maschine", "天", "user name", '"flow heat"']
ROUNDS = 12


@pytest.fixture
def catalogs(open_database):
    """Two objects on one database share nothing but it, like two processes."""
    opened = [Catalog(open_database(), wait_seconds=PATIENCE_SECONDS) for _ in range(2)]
    for catalog in opened:
        catalog.open()
    create(opened[0], *NAMES)
    return opened


@pytest.fixture
def never_held():
    return WordIndex(HeldWords(most_words=0))


def change(catalog, dice):
    """Add, change or delete some documents, make a collection anew under its name, or merge segments."""
    name = dice.choice(NAMES)
    ids = [str(number) for number in dice.sample(range(40), 4)]
    texts = [" ".join(dice.choices(WORDS, k=6)) for _ in ids]
    kind = dice.randrange(8)
    if kind == 0:
        catalog.commit(lambda transaction: anew(transaction, name))
    elif kind == 1:
        merging = WordMerging(catalog, lambda: 0.0, merged_at_once=2)
        while merging.step():
            pass
    elif kind == 2:
        delete(catalog, name, *ids)
    else:
        add(catalog, name, ids, texts)


def anew(transaction, name):
    collection_writes.delete_collection(transaction, name)
    collection_writes.create_collection(transaction, name, {}, "cosine")


def answers(catalog, query, name, never_held):
    """The answer of the catalogue's own index and that of the tables, both of one snapshot."""
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        return [
            index.best(transaction, collection, query, EVERYTHING, limit=50)
            for index in (transaction.dialect.text_index, never_held)
        ]


def test_an_answer_from_memory_is_that_of_its_snapshot(catalogs, never_held, monkeypatch):
    from_memory, wrong = [], []
    find = HeldWords.find

    def counted(held, *given):
        found = find(held, *given)
        if found is not None:
            from_memory.append(1)
        return found

    monkeypatch.setattr(HeldWords, "find", counted)
    over = threading.Event()

    def write(catalog, seed):
        dice = random.Random(seed)
        for _ in range(ROUNDS):
            change(catalog, dice)
            for name in NAMES:
                for _ in range(4):
                    compare(catalog, dice.choice(QUERIES), name)

    def ask(catalog, seed):
        dice = random.Random(seed)
        while not over.is_set():
            compare(catalog, dice.choice(QUERIES), dice.choice(NAMES))

    def compare(catalog, query, name):
        mine, told = answers(catalog, query, name, never_held)
        if mine != told:
            wrong.append((query, mine, told))

    with ThreadPoolExecutor(6) as threads:
        writers = [threads.submit(write, each, seed) for seed, each in enumerate(catalogs)]
        readers = [threads.submit(ask, each, 10 + seed) for seed, each in enumerate(catalogs * 2)]
        try:
            for each in writers:
                each.result()
        finally:
            over.set()
        for each in readers:
            each.result()
    assert wrong == []
    assert len(from_memory) > ROUNDS
