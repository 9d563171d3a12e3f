"""Ids are any text: documents are found, replaced and deleted under exactly their own."""

import pytest

from tests.wrapper.documents import add, collection_of, create, delete
from wrapper.catalog import reads
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import find_collection

AWKWARD = ["a", "a\x00b", "a\x00", "\x00", "A", " a", "é", "e\u0301", "𝔸", "1", "1.0", '"', "\\u0000", "/", "null"]


@pytest.fixture
def filled(catalog):
    create(catalog, "awkward")
    assert add(catalog, "awkward", AWKWARD).created == len(AWKWARD)
    return catalog


def _state(catalog):
    with catalog.read() as transaction:
        return find_collection(transaction, "awkward").revision, outbox.newest(transaction)


def test_each_is_found_alone_and_with_the_others(filled):
    with filled.read() as transaction:
        collection = find_collection(transaction, "awkward")
        for each in AWKWARD:
            assert list(reads.by_ids(transaction, collection, [each])) == [each]
        assert set(reads.by_ids(transaction, collection, AWKWARD)) == set(AWKWARD)
        assert len(reads.vectors_of(transaction, collection, AWKWARD)[0]) == len(AWKWARD)


def test_deleting_one_deletes_no_other_and_unknown_ones_are_passed_over(filled):
    before = _state(filled)
    again = add(filled, "awkward", AWKWARD)
    assert (again.unchanged, (again.revision, again.outbox_id)) == (len(AWKWARD), before)
    unknown = delete(filled, "awkward", "b", "a\x00c", "a\x00b\x00", "")
    assert (unknown.deleted, (unknown.revision, unknown.outbox_id)) == (0, before)
    for left, each in enumerate(reversed(AWKWARD)):
        assert delete(filled, "awkward", each).deleted == 1
        assert collection_of(filled, "awkward").count == len(AWKWARD) - left - 1


@pytest.mark.parametrize("values", [[], [1, 2], ["a"], ["a\x00", "b"], ["\x00", "a\x00"]])
def test_a_list_of_values_is_a_condition(catalog, values):
    kind = str if values and isinstance(values[0], str) else int
    with catalog.read() as transaction:
        listed = transaction.dialect.one_of("o.given", values)
        for each in [1, 2, 3] if kind is int else ["a", "a\x00", "b", "\x00", ""]:
            found = transaction.rows(
                f"SELECT 1 FROM (SELECT ? AS given) o WHERE {listed.text}", (each, *listed.parameters)
            )
            assert bool(found) == (each in values)
