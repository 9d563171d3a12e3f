"""Ids are any text: documents are found, replaced and deleted under exactly their own."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.records import DocumentBatch
from wrapper.catalog import reads, writes
from wrapper.catalog.index_state import outbox
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection

AWKWARD = ["a", "a\x00b", "a\x00", "\x00", "A", " a", "é", "e\u0301", "𝔸", "1", "1.0", '"', "\\u0000", "/", "null"]


@pytest.fixture
def filled(catalog):
    def fill(transaction):
        collection_writes.create_collection(transaction, "awkward", {}, "cosine")
        return _add(transaction)

    outcome = catalog.commit(fill)
    assert outcome.created == len(AWKWARD)
    return catalog


def _add(transaction):
    vectors = np.eye(len(AWKWARD), dtype="<f4")
    batch = DocumentBatch(AWKWARD, [f"text {each}" for each in AWKWARD], [{} for _ in AWKWARD], vectors)
    return writes.add_documents(transaction, "awkward", batch)


def test_each_is_found_alone_and_with_the_others(filled):
    with filled.read() as transaction:
        collection = find_collection(transaction, "awkward")
        for each in AWKWARD:
            assert list(reads.by_ids(transaction, collection, [each])) == [each]
        assert set(reads.by_ids(transaction, collection, AWKWARD)) == set(AWKWARD)
        assert len(reads.vectors_of(transaction, collection, AWKWARD)[0]) == len(AWKWARD)


def test_adding_them_again_changes_nothing(filled):
    with filled.read() as transaction:
        before = find_collection(transaction, "awkward").revision, outbox.newest(transaction)
    outcome = filled.commit(_add)
    assert outcome.unchanged == len(AWKWARD)
    assert (outcome.revision, outcome.outbox_id) == before


def test_deleting_one_deletes_no_other(filled):
    for left, each in enumerate(reversed(AWKWARD)):
        deleted = filled.commit(
            lambda transaction, each=each: writes.delete_documents(transaction, "awkward", ids=[each])
        )
        assert deleted.deleted == 1
        with filled.read() as transaction:
            assert find_collection(transaction, "awkward").count == len(AWKWARD) - left - 1


def test_unknown_ids_are_passed_over(filled):
    unknown = ["b", "a\x00c", "a\x00b\x00", ""]
    with filled.read() as transaction:
        before = find_collection(transaction, "awkward").revision, outbox.newest(transaction)
    outcome = filled.commit(lambda transaction: writes.delete_documents(transaction, "awkward", ids=unknown))
    assert outcome.deleted == 0
    assert (outcome.revision, outcome.outbox_id) == before


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
