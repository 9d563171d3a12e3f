"""Documents: stored, replaced, deleted and read in pages, alike at every provider."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schemas.errors import InvalidInputError
from schemas.records import DocumentBatch
from tests.providers.contracts.batches import batch
from tests.support.live import eventually

FOUND_SECONDS = 30
AWKWARD = (
    "with space",
    "ünïcödé 日本語",
    "a/b?c#d&e=%41",
    "'\"\\",
    "x" * 300,
    "5",
    "12345678-1234-5678-1234-567812345678",
)


def ids_of(documents):
    return {document.id for document in documents}


def test_documents_come_back_as_they_went(provider, made, documents_of):
    name = made()
    stored = batch(("a", {"t": "ä\n", "n": -1, "f": 1.5, "b": True, "l": ["x", "y"]}), ("b", {}))
    provider.add_documents(name, DocumentBatch(stored.ids, ["Text ü", ""], stored.metadatas, stored.embeddings))
    found = {each.id: each for each in documents_of(name)}
    assert {each: (found[each].text, found[each].metadata) for each in found} == {
        "a": ("Text ü", stored.metadatas[0]),
        "b": ("", {}),
    }
    assert all(each.embedding is None for each in found.values())


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_embeddings_come_back_when_asked_for(provider, made, metric):
    name = made(metric)
    stored = batch(("a", {}), ("b", {}))
    provider.add_documents(name, stored)
    found = {each.id: each.embedding for each in provider.documents(name, with_embeddings=True).documents}
    for document_id, embedding in zip(stored.ids, stored.embeddings, strict=True):
        assert found[document_id].dtype == np.float32
        np.testing.assert_array_equal(found[document_id], embedding)


def test_documents_are_found_by_their_ids_in_the_order_asked_for(provider, made):
    name = made("l2")
    assert provider.documents_by_id(name, ["a"]) == []
    stored = batch(("a", {"n": 1}), ("b", {"n": 2}), *((each, {"n": 3}) for each in AWKWARD))
    assert provider.add_documents(name, stored) is True
    found = provider.documents_by_id(name, [*AWKWARD, "b", "never", "a", "b"], with_embeddings=True)
    assert [each.id for each in found] == [*AWKWARD, "b", "a"]
    assert [each.metadata["n"] for each in found[-2:]] == [2, 1]
    np.testing.assert_array_equal(found[-1].embedding, stored.embeddings[0])
    assert provider.documents_by_id(name, []) == []
    assert provider.documents_by_id(name, ["b"])[0].embedding is None


def test_too_many_ids_at_once_are_refused(provider, made):
    with pytest.raises(InvalidInputError, match="1000"):
        provider.documents_by_id(made(), [str(number) for number in range(1001)])


def test_a_document_of_the_same_id_is_replaced_as_a_whole(provider, made, documents_of):
    name = made("l2")
    provider.add_documents(name, batch(("a", {"old": 1, "both": 1, "list": ["x"]}, [1, 0]), ("b", {"old": 1}, [0, 1])))
    provider.add_documents(name, DocumentBatch(["a"], ["new"], [{"both": "2"}], np.array([[0, 5]], "f4")))
    assert provider.collection(name).count == 2
    found = {each.id: each for each in documents_of(name)}
    assert (found["a"].text, found["a"].metadata) == ("new", {"both": "2"})
    assert found["b"].metadata == {"old": 1}
    assert ids_of(documents_of(name, {"old": 1})) == {"b"}
    assert ids_of(documents_of(name, {"list": {"$contains": "x"}})) == set()
    (nearest,) = provider.search(name, np.array([0, 5], "f4"), top_k=1)
    assert (nearest.document.id, nearest.distance) == ("a", 0)


def test_what_is_replaced_goes_when_it_is_not_among_the_new(provider, made, documents_of):
    name = made()
    provider.add_documents(name, batch(("a", {"s": 1}), ("b", {"s": 1}), ("c", {"s": 2}), ("d", {})))
    provider.add_documents(name, batch(("b", {"s": 1, "v": 2}), ("e", {"s": 2})), replace_where={"s": 1})
    assert ids_of(documents_of(name)) == {"b", "c", "d", "e"}
    provider.add_documents(name, batch(("f", {})), replace_where={})
    assert ids_of(documents_of(name)) == {"f"}


def test_documents_are_deleted_by_ids_or_by_filter(provider, made, documents_of):
    name = made()
    provider.add_documents(name, batch(*((f"d{number}", {"n": number, "odd": number % 2 == 1}) for number in range(8))))
    provider.delete_documents(name, ids=["d0", "d2", "never"])
    provider.delete_documents(name, where={"odd": True, "n": {"$gt": 4}})
    provider.delete_documents(name, where={"n": {"$in": []}})
    assert ids_of(documents_of(name)) == {"d1", "d3", "d4", "d6"}
    provider.delete_documents(name, where={"missing": {"$ne": 1}})
    assert provider.collection(name).count == 0


@pytest.mark.parametrize("selection", [{}, {"ids": ["a"], "where": {"a": 1}}, {"where": {}}, {"where": {"$and": [{}]}}])
def test_a_deletion_says_what_it_means(provider, made, selection):
    name = made()
    provider.add_documents(name, batch(("a", {"a": 1})))
    with pytest.raises(InvalidInputError):
        provider.delete_documents(name, **selection)
    assert provider.collection(name).count == 1


def test_pages_hold_each_document_once_and_the_exact_total(provider, made, documents_of):
    name = made()
    provider.add_documents(name, batch(*((f"d{number}", {"n": number}) for number in range(23))))
    for where, expected in (({}, 23), ({"n": {"$gte": 10}}, 13), ({"n": -1}, 0), ({"n": {"$lt": 5}}, 5)):
        found, cursor, sizes = [], None, []
        while True:
            page = provider.documents(name, where, limit=5, cursor=cursor)
            found += [each.id for each in page.documents]
            sizes.append(len(page.documents))
            assert page.total == expected
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(found) == len(set(found)) == expected
        assert all(size == 5 for size in sizes[:-1])
        assert found == [each.id for each in documents_of(name, where)]


def test_a_cursor_is_of_one_filter_and_no_other(provider, made):
    name = made()
    provider.add_documents(name, batch(*((f"d{number}", {"n": number}) for number in range(4))))
    cursor = provider.documents(name, {"n": {"$gt": 0}}, limit=1).next_cursor
    for where, given in (({"n": {"$gt": 1}}, cursor), ({}, "rubbish"), ({}, "ä"), ({}, "")):
        with pytest.raises(InvalidInputError) as raised:
            provider.documents(name, where, limit=1, cursor=given)
        assert raised.value.details["field"] == "cursor"


def test_a_page_has_at_least_one_document(provider, made):
    name = made()
    for limit in (0, -1):
        with pytest.raises(InvalidInputError):
            provider.documents(name, limit=limit)


def test_ids_are_any_text(provider, made, documents_of):
    name = made()
    provider.add_documents(name, batch(*((each, {"n": number}) for number, each in enumerate(AWKWARD))))
    assert ids_of(documents_of(name)) == set(AWKWARD)
    provider.add_documents(name, batch(*((each, {"n": -1}) for each in AWKWARD)))
    assert ids_of(documents_of(name, {"n": -1})) == set(AWKWARD)
    assert provider.collection(name).count == len(AWKWARD)
    for each in AWKWARD:
        provider.delete_documents(name, ids=[each])
        assert each not in ids_of(documents_of(name))
    assert provider.collection(name).count == 0


VECTOR = np.ones((1, 4), "f4")


@pytest.mark.parametrize(
    "wrong",
    [
        DocumentBatch([], [], [], np.empty((0, 4), "f4")),
        DocumentBatch(["a", "a"], ["", ""], [{}, {}], np.ones((2, 4), "f4")),
        DocumentBatch([""], [""], [{}], VECTOR),
        DocumentBatch(["a"], [""], [{}], np.ones((1, 3), "f4")),
        DocumentBatch(["a"], [""], [{}], np.array([[1, np.nan, 1, 1]], "f4")),
        DocumentBatch(["a"], [""], [{}], np.array([[1, 1e300, 1, 1]])),
        DocumentBatch(["a"], [""], [{"n": float("inf")}], VECTOR),
        DocumentBatch(["a"], [""], [{"n": 2**70}], VECTOR),
        DocumentBatch(["a"], ["\ud800"], [{}], VECTOR),
        DocumentBatch(["a"], [""], [{"a": {1, 2}}], VECTOR),
    ],
    ids=["none", "twice", "no id", "dimension", "nan", "too large", "infinite", "70 bits", "half a character", "a set"],
)
def test_wrong_documents_are_refused_and_nothing_is_stored(provider, made, wrong):
    name = made()
    provider.add_documents(name, batch(("first", {"n": 1})))
    with pytest.raises(InvalidInputError):
        provider.add_documents(name, wrong, replace_where={"n": 1})
    assert [each.id for each in provider.documents(name).documents] == ["first"]


def test_a_wrong_dimension_is_told_with_both_numbers(provider, made):
    name = made()
    provider.add_documents(name, batch(("a", {})))
    for ask in (
        lambda: provider.add_documents(name, batch(("b", {}), dimension=3)),
        lambda: provider.search(name, np.ones(3, "f4")),
    ):
        with pytest.raises(InvalidInputError, match="has 4, got 3") as raised:
            ask()
        assert (raised.value.details["expected"], raised.value.details["actual"]) == (4, 3)
        assert raised.value.code == "dimension_mismatch"


def test_what_eight_threads_write_at_once_is_read_at_once_and_found_then_or_a_moment_later(
    backend, provider, made, documents_of
):
    name = made("l2")
    _, connected = backend
    provider.add_documents(name, batch(("first", {"thread": -1})))

    def work(thread):
        for number in range(5):
            vector = np.array([thread, number, 0, 1], "f4")
            document_id = f"t{thread}-{number}"
            provider.add_documents(name, batch((document_id, {"thread": thread}, vector)))
            (stored,) = provider.documents_by_id(name, [document_id])
            assert stored.metadata == {"thread": thread}

            def is_nearest(vector=vector, document_id=document_id):
                (nearest,) = provider.search(name, vector, top_k=1)
                return nearest.document.id == document_id

            if connected.finds_at_once:
                assert is_nearest()
            else:
                eventually(is_nearest, seconds=FOUND_SECONDS)
        assert provider.documents(name, {"thread": thread}).total == 5

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(documents_of(name)) == 41
