"""Search by words, whole groups and orders: what those providers do alike that can."""

from __future__ import annotations

import numpy as np
import pytest

from providers.base import SupportsGather, SupportsOrderBy, SupportsTextSearch
from schemas.errors import CollectionNotFoundError, InvalidInputError, UnsupportedError
from schemas.records import DocumentBatch, GatherSpec, OrderBy
from tests.properties.model import ModelCollection, ModelDocument

TEXTS = ("red apple", "green apple and apple", "a red house", "nothing", "größe äpfel")


@pytest.fixture
def able(provider, registry):
    """`able(ability)`: whether the provider has it; that it is refused otherwise is asserted here."""

    def ask(ability):
        if isinstance(provider, ability):
            return True
        with pytest.raises(UnsupportedError):
            registry.require(provider, ability)
        return False

    return ask


@pytest.fixture
def filled(provider, made):
    name = made()
    metadatas = [{"s": "one", "n": 2}, {"s": "one", "n": 1}, {"s": "two", "n": "b"}, {"n": "a"}, {"s": "two"}]
    ids = [f"d{number}" for number in range(len(TEXTS))]
    provider.add_documents(name, DocumentBatch(ids, list(TEXTS), metadatas, np.eye(len(TEXTS), dtype="f4")))
    documents = [ModelDocument(i, t, m, np.zeros(1)) for i, t, m in zip(ids, TEXTS, metadatas, strict=True)]
    return name, ModelCollection(documents=documents)


def test_words_are_found_best_first(provider, able, filled):
    if not able(SupportsTextSearch):
        return
    name, _ = filled
    found = provider.text_search(name, "apple")
    assert [each.document.id for each in found] == ["d1", "d0"]
    assert found[0].score > found[1].score > 0
    assert [each.document.id for each in provider.text_search(name, "red", where={"s": "two"})] == ["d2"]
    assert len(provider.text_search(name, "red apple", top_k=1)) == 1
    for query in ('"', "AND OR (", "", "*", "größe"):
        assert {each.document.id for each in provider.text_search(name, query)} <= {"d1", "d4"}
    assert [each.document.id for each in provider.text_search(name, "größe")] == ["d4"]
    with pytest.raises(CollectionNotFoundError):
        provider.text_search("no-such-collection", "a")


def test_groups_come_whole_in_the_order_of_the_ids(provider, able, filled):
    if not able(SupportsGather):
        return
    name, model = filled
    hits = ["d4", "d0", "d3", "d2"]
    groups = provider.gather(name, hits, GatherSpec("s", (OrderBy("n"),)))
    assert [(each.key, [document.id for document in each.documents]) for each in groups] == model.groups(
        hits, "s", ["n"], 100
    )
    assert [each.rank for each in groups] == [1, 2, 3]
    assert [each.hits for each in groups] == [{"d4", "d2"}, {"d0"}, {"d3"}]
    (group,) = provider.gather(name, ["d0"], GatherSpec("s", limit=1))
    assert (len(group.documents), group.total) == (1, 2)
    with pytest.raises(CollectionNotFoundError):
        provider.gather("no-such-collection", ["a"], GatherSpec("s"))


@pytest.mark.parametrize("order", [["n"], ["-n"], ["s", "-n"], ["-s", "n"]])
def test_orders_are_typed_and_end_with_what_lacks_the_field(provider, able, filled, order):
    if not able(SupportsOrderBy):
        return
    name, model = filled
    asked = [OrderBy(each.removeprefix("-"), each.startswith("-")) for each in order]
    for where in ({}, {"s": {"$exists": True}}):
        found, cursor = [], None
        while True:
            page = provider.ordered_documents(name, where, order_by=asked, limit=2, cursor=cursor)
            found += [each.id for each in page.documents]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [each.id for each in model.ordered(where, order)]
        assert page.total == len(found)
    with pytest.raises(InvalidInputError):
        provider.ordered_documents(name, order_by=asked, limit=0)
