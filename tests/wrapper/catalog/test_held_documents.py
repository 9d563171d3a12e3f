"""Documents held in memory: which are read, how long they are valid, and how many there may be."""

from concurrent.futures import ThreadPoolExecutor
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wrapper.documents import add, create, delete, numbered
from wrapper.catalog import held_documents, reads
from wrapper.catalog.held_documents import DOCUMENT_BYTES, HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection

COUNT = 20


@pytest.fixture
def catalog(empty_catalog):
    """Collections `one` and `two` with 20 documents each."""
    create(empty_catalog, "one", "two")
    for name in ("one", "two"):
        _put(empty_catalog, name, [f"{name} {number}" for number in range(COUNT)])
    return empty_catalog


@pytest.fixture
def read(monkeypatch):
    """The positions that were read from the catalogue, one list for each time."""
    asked = []

    def by_positions(transaction, wanted, **how):
        asked.append(list(wanted))
        return original(transaction, wanted, **how)

    original = reads.by_positions
    monkeypatch.setattr(reads, "by_positions", by_positions)
    return asked


def _put(catalog, name, texts):
    """Store texts under the ids 0, 1, 2, …"""
    add(catalog, name, numbered(len(texts), ""), texts)


def _places(catalog, name):
    with catalog.read() as transaction:
        return sorted(reads.all_positions(transaction, find_collection(transaction, name)).tolist())


def _texts(held, catalog, name, places):
    with catalog.read() as transaction:
        found = held.at(transaction, find_collection(transaction, name), places)
        return [found[place].text for place in places]


def test_a_document_is_read_once(catalog, read):
    held, places = HeldDocuments(), _places(catalog, "one")
    assert _texts(held, catalog, "one", places[:3]) == ["one 0", "one 1", "one 2"]
    assert _texts(held, catalog, "one", places[1:5]) == ["one 1", "one 2", "one 3", "one 4"]
    _put(catalog, "two", ["changed"])
    assert _texts(held, catalog, "one", places[:5]) == ["one 0", "one 1", "one 2", "one 3", "one 4"]
    assert read == [places[:3], places[3:5]]


def test_after_a_write_what_it_changed_is_read_anew(catalog, read):
    held, (first, second, third, *_) = HeldDocuments(), _places(catalog, "one")
    _texts(held, catalog, "one", [first, second, third])
    _put(catalog, "one", ["changed"])
    delete(catalog, "one", "2")
    assert _texts(held, catalog, "one", [first, second]) == ["changed", "one 1"]
    assert read == [[first, second, third], [first]]
    with catalog.read() as transaction:
        assert third not in held.at(transaction, find_collection(transaction, "one"), [third])
    sizes = [DOCUMENT_BYTES + sum(map(getsizeof, ("1", text, "{}"))) for text in ("changed", "one 1")]
    assert held.size_bytes == sum(sizes)


def test_after_many_changes_all_documents_are_read_anew(catalog, read, monkeypatch):
    monkeypatch.setattr(held_documents, "MOST_CHANGED", 2)
    held, places = HeldDocuments(), _places(catalog, "one")
    _texts(held, catalog, "one", places[:5])
    _put(catalog, "one", ["changed"] * 3)
    assert _texts(held, catalog, "one", places[3:5]) == ["one 3", "one 4"]
    assert read == [places[:5], places[3:5]]


@given(st.lists(st.tuples(st.sampled_from(["put", "delete", "empty", "ask"]), st.sets(st.integers(0, 9))), max_size=15))
def test_whatever_is_written_the_documents_are_those_of_the_catalogue(catalog, steps):
    held = HeldDocuments()
    for number, (act, ids) in enumerate(steps):
        names = [str(each) for each in sorted(ids)]
        if act == "put" and names:
            add(catalog, "one", names, [f"{number} {each}" for each in names])
        if act == "delete":
            delete(catalog, "one", *names)
        if act == "empty":
            catalog.commit(lambda transaction: collection_writes.empty_collection(transaction, "one"))
        places = _places(catalog, "one")
        with catalog.read() as transaction:
            wanted = places + [place + 1 for place in places]
            found = held.at(transaction, find_collection(transaction, "one"), wanted)
            expected = reads.by_positions(transaction, wanted)
        assert {place: found[place].text for place in wanted if place in found} == {
            place: each.text for place, each in expected.items()
        }


def test_a_snapshot_sees_what_it_began_with_and_later_ones_are_not_disturbed(catalog):
    held, (first, second, *_) = HeldDocuments(), _places(catalog, "one")
    with ThreadPoolExecutor(1) as another, catalog.read() as old:
        before = find_collection(old, "one")
        another.submit(_put, catalog, "one", ["changed", "changed, too"]).result()
        assert another.submit(_texts, held, catalog, "one", [first]).result() == ["changed"]
        found = held.at(old, before, [first, second])
        assert [found[first].text, found[second].text] == ["one 0", "one 1"]
    assert _texts(held, catalog, "one", [first, second]) == ["changed", "changed, too"]


def test_the_collection_asked_longest_ago_makes_room(catalog, read):
    room = HeldDocuments()
    one, two = _places(catalog, "one"), _places(catalog, "two")
    _texts(room, catalog, "one", one)
    held = HeldDocuments(most_bytes=room.size_bytes * 3 // 2)
    read.clear()
    for name, places in (("one", one), ("two", two), ("two", two), ("one", one)):
        _texts(held, catalog, name, places)
    assert read == [one, two, one]
    assert held.size_bytes <= room.size_bytes * 3 // 2


def test_what_does_not_fit_is_answered_and_not_held(catalog, read):
    held, places = HeldDocuments(most_bytes=DOCUMENT_BYTES), _places(catalog, "one")
    for _ in range(2):
        assert _texts(held, catalog, "one", places[:1]) == ["one 0"]
    assert read == [places[:1]] * 2
    assert held.size_bytes == 0
