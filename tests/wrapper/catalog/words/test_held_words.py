"""A question has the same answer whether the words of its collection are held in memory or read, and while two processes
write, that of its own snapshot."""

import random
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
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
from wrapper.catalog.words.held import HeldWords
from wrapper.catalog.words.index import WordIndex
from wrapper.catalog.words.merging import WordMerging
from wrapper.catalog.words.segments import Segment
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


def test_each_kind_of_question_is_answered_alike(catalog, collection, never_held, monkeypatch):
    """The words of what was written are held with the first question after it."""
    name, add = collection
    read = []
    usual = held_words.stored_occurrences
    monkeypatch.setattr(
        held_words,
        "stored_occurrences",
        lambda transaction, stored, terms: read.append(len(stored)) or usual(transaction, stored, terms),
    )
    for change in (["another wing"], ["weather 天気 雨"], ["Maschinen"]):
        add([*change, *QUERIES], first=7)
        for query in QUERIES:
            mine, told = answers(catalog, query, name, never_held)
            assert mine == told, query
    read.clear()
    (best,), total = search(catalog, name, "wing", Equals("n", "0"), limit=5)
    assert (best.document.id, total) == ("0", 1)
    assert read
    assert not any(read), "nothing is read from the tables"


class Counted:
    """A stored segment as far as holding asks for it."""

    def __init__(self, number, words):
        self.number, self.documents, self.words, self.language, self.alive = number, 1, words, "en", None


@pytest.fixture
def terms():
    """The terms of segments, by number."""
    return {}


@pytest.fixture
def reads(monkeypatch, terms):
    """The segments that were read so far. A word takes four bytes, and 666 of them cannot be read."""
    numbers = []

    def read(transaction, segment):
        numbers.append(segment.number)
        if segment.words == 666:
            raise MemoryError
        own = terms.get(segment.number, [])
        return Segment(None, own, np.zeros(len(own), dtype=np.int64), np.zeros(segment.words, dtype=np.uint32))

    monkeypatch.setattr(held_words, "read", read)
    return numbers


def asked(held, key, stored, times=1):
    """The numbers of what is held when a collection of these segments is asked, each time."""
    return [sorted(held.of(None, key, stored)) for _ in range(times)]


def test_a_segment_is_held_after_as_many_questions_as_it_costs(reads):
    held = HeldWords(words_a_question=10_000)
    large, small, smaller = Counted(1, 35_000), Counted(2, 4_000), Counted(3, 2_000)
    assert asked(held, 1, [large, small], 6) == [[2]] * 4 + [[1, 2]] * 2
    assert asked(held, 1, [large, small, smaller], 2) == [[1, 2, 3]] * 2
    assert reads == [2, 1, 3], "each is read once"
    assert asked(held, 2, [Counted(4, 15_000)], 2) == [[], [4]], "each collection pays for its own"


def test_those_that_were_asked_longest_ago_make_room(reads):
    held = HeldWords(most_bytes=4_000, words_a_question=10_000)
    first, second, third = ([Counted(number, 400)] for number in (1, 2, 3))
    asked(held, 1, first)
    asked(held, 2, second)
    asked(held, 1, first)
    assert asked(held, 3, third) == [[3]]
    assert reads == [1, 2, 3]
    asked(held, 1, first)
    assert reads == [1, 2, 3], "it was asked after the second one"
    asked(held, 2, second)
    assert reads == [1, 2, 3, 2]


def test_what_does_not_fit_beside_the_others_of_its_collection_takes_no_room_from_them(reads, terms):
    held = HeldWords(most_bytes=4_000, words_a_question=10_000)
    several = [Counted(1, 300), Counted(2, 500), Counted(3, 600)]
    assert asked(held, 1, several, 5) == [[1, 2]] * 5
    assert asked(held, 2, [Counted(4, 2_000)], 9) == [[]] * 9
    assert reads == [1, 2]
    with_terms = [Counted(5, 300), Counted(6, 400)]
    terms[6] = ["a", "b"] * 10
    assert asked(held, 3, with_terms, 9) == [[5, 6], *[[5]] * 8]
    assert reads == [1, 2, 5, 6], "what turned out to be too large is not read again"


def test_a_segment_that_could_not_be_read_is_tried_again(reads):
    held = HeldWords(words_a_question=1_400)
    for _ in range(2):
        assert asked(held, 1, [Counted(1, 666)]) == [[]]
        with pytest.raises(MemoryError):
            held.of(None, 1, [Counted(1, 666)])
    assert reads == [1, 1]


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
        taken = HeldWords(words_a_question=10**9).of(transaction, key, stored)
        by_holding = tracemalloc.Filter(inclusive=True, filename_pattern=held_words.__file__, all_frames=True)
        used_bytes = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([by_holding]).traces)
        tracemalloc.stop()
    size_bytes = sum(each.size_bytes for each in taken.values())
    assert size_bytes > 2_000 * 80
    assert 0.7 < used_bytes / size_bytes < 1.3


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
    return WordIndex(HeldWords(most_bytes=0))


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
    of = HeldWords.of

    def counted(held, *given):
        found = of(held, *given)
        if found:
            from_memory.append(1)
        return found

    monkeypatch.setattr(HeldWords, "of", counted)
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
