"""A question has the same answer whether the words of its collection are held in memory or read, and while two processes
write, that of its own snapshot."""

import random
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.where import EVERYTHING, Equals
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper import documents
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create, delete, search
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.words import held as held_words
from wrapper.catalog.words import index as index_module
from wrapper.catalog.words.held import HeldWords
from wrapper.catalog.words.index import WordIndex
from wrapper.catalog.words.merging import WordMerging
from wrapper.catalog.words.stored_segments import Layouts, segments

TEXTS = [
    "The wing of the aircraft and the flow around the wing",
    "Heat flows through a wall; a hot wall flows into nothing",
    "getUserName reads a user, and snake_case_name does not",
    "Der Motor der Maschine läuft, und die Maschinen laufen",
    "東京の天気は晴れです。明日は雨です。",
    "ระบบสำรองข้อมูลทำงานทุกคืน",
    "nothing",
]
QUERIES = ["wing flow", '"hot wall"', "user name", "Maschine", "天気", "สำรอง", "w", ""]


@pytest.fixture
def collection(catalog):
    name = "held"
    create(catalog, name)

    def add(texts, first=0):
        ids = [str(first + number) for number in range(len(texts))]
        documents.add(catalog, name, ids, texts, [{"n": each} for each in ids])

    add(TEXTS[:3])
    add(TEXTS[3:], first=3)
    return name, add


@pytest.fixture
def ask(catalog, collection, monkeypatch):
    """`ask(query)`: the answer, and whether the words were read from the tables for it."""
    reads = []
    usual = index_module.stored_occurrences
    monkeypatch.setattr(index_module, "stored_occurrences", lambda *given: reads.append(1) or usual(*given))

    def answer(query, where=EVERYTHING):
        reads.clear()
        found, total = search(catalog, collection[0], query, where, limit=5)
        return [(each.document.id, each.score) for each in found], total, bool(reads)

    return answer


def test_each_kind_of_question_is_answered_alike(ask, collection):
    """The first question after a write is read from the tables, those after enough others from memory."""
    _, add = collection
    for change in (["another wing"], ["weather 天気 雨"], ["Maschinen"]):
        for query in QUERIES:
            add([*change, query], first=7)
            first, second, third = (ask(query) for _ in range(3))
            assert (first[2], third[2]) == (True, False), query
            assert first[:2] == second[:2] == third[:2], query
    assert ask("wing", Equals("n", "0"))[:2] == ([("0", pytest.approx(dict(ask("wing")[0])["0"]))], 1)


class Counted:
    """A stored segment as far as holding asks for it."""

    def __init__(self, number, words):
        self.number, self.documents, self.words, self.language, self.alive = number, 1, words, "en", None


class Made:
    """What is held of segments like that, at one byte a word."""

    def __init__(self, state, stored):
        self.state, self.size_bytes = state, sum(each.words for each in stored)


@pytest.fixture
def merged(monkeypatch):
    """The states that were merged so far."""
    states = []

    def merge(transaction, state, stored):
        states.append(state)
        if stored[0].words == 666:
            raise MemoryError
        return Made(state, stored)

    monkeypatch.setattr("wrapper.catalog.words.held._merged", merge)
    return states


def asked(held, key, stored, times):
    return [held.find(None, key, stored) is not None for _ in range(times)]


def test_holding_waits_for_as_many_questions_as_it_costs_and_is_bounded(merged):
    held = HeldWords(most_words=1_900, most_bytes=1_000, words_a_question=100)
    large, small = [Counted(1, 600)], [Counted(2, 500)]
    assert asked(held, 1, large, 9) == [False] * 7 + [True] * 2
    assert asked(held, 2, small, 8) == [False] * 6 + [True] * 2
    assert asked(held, 1, large, 1) == [False], "both are more than may be held"
    assert not any(asked(held, 3, [Counted(3, 2_000)], 50))
    assert len(merged) == 2


def test_a_collection_that_made_room_is_held_again_once_it_pays(merged):
    held = HeldWords(most_bytes=1_000, words_a_question=100)
    large, small = [Counted(1, 600)], [Counted(2, 500)]
    asked(held, 1, large, 8)
    asked(held, 2, small, 7)
    assert asked(held, 1, large, 9) == [False] * 7 + [True] * 2
    assert asked(held, 2, small, 8) == [False] * 6 + [True] * 2


def test_what_does_not_fit_alone_makes_no_room_and_is_merged_once_for_a_state(merged):
    held = HeldWords(most_bytes=1_000, words_a_question=1_000)
    asked(held, 1, [Counted(1, 400)], 3)
    assert asked(held, 2, [Counted(2, 1_500)], 50).count(True) == 1
    assert asked(held, 1, [Counted(1, 400)], 1) == [True]
    assert asked(held, 2, [Counted(2, 1_500), Counted(4, 1)], 50).count(True) == 1
    assert len(merged) == 3


def test_a_merge_that_failed_is_tried_again_after_as_many_questions(merged):
    held = HeldWords(words_a_question=1_000)
    for _ in range(2):
        assert asked(held, 1, [Counted(1, 666)], 1) == [False]
        with pytest.raises(MemoryError):
            held.find(None, 1, [Counted(1, 666)])
    assert len(merged) == 2


@pytest.mark.slow
@SQLITE
def test_what_is_held_takes_no_more_memory_than_is_counted(collection, catalog):
    """Each word of these texts is another one, which takes most memory."""
    _, add = collection
    add([" ".join(f"w{number:03d}x{word:03d}" for word in range(100)) for number in range(20)], first=50)
    with catalog.read() as transaction:
        key = find_collection(transaction, collection[0]).key
        stored = segments(transaction, Layouts(), key)
        tracemalloc.start(20)
        held = HeldWords(words_a_question=10**9)
        taken = [held.find(transaction, key, stored) for _ in range(2)][-1]
        by_holding = tracemalloc.Filter(inclusive=True, filename_pattern=held_words.__file__, all_frames=True)
        used_bytes = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([by_holding]).traces)
        tracemalloc.stop()
    assert taken.size_bytes > 2_000 * 80
    assert 0.7 < used_bytes / taken.size_bytes < 1.3


NAMES = ("one", "other")
WORDS = ["wing", "flow", "heat", "wall", "Maschinen", "天気", "getUserName", "reading"]
ASKED = ["wing flow", "heat", "Maschine", "天", "user name", '"flow heat"']
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


@pytest.mark.slow
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
                    compare(catalog, dice.choice(ASKED), name)

    def ask(catalog, seed):
        dice = random.Random(seed)
        while not over.is_set():
            compare(catalog, dice.choice(ASKED), dice.choice(NAMES))

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
