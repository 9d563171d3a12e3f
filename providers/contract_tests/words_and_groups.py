"""Search by words, whole groups, and orders: the same at every provider that can do them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from providers.base import SupportsGather, SupportsOrderBy, SupportsTextSearch
from providers.contract_tests.abilities import needs
from providers.contract_tests.model import ModelCollection, ModelDocument
from providers.contract_tests.samples import where
from schemas.errors import CollectionNotFoundError, InvalidInputError
from schemas.records import DocumentBatch, GatherSpec, Group, OrderBy

TEXTS = ("red apple", "green apple and apple", "a red house", "nothing", "größe äpfel")
METADATAS: tuple[dict[str, Any], ...] = (
    {"s": "one", "n": 2},
    {"s": "one", "n": 1},
    {"s": "two", "n": "b"},
    {"n": "a"},
    {"s": "two"},
)
IDS = [f"d{number}" for number in range(len(TEXTS))]
STORED = DocumentBatch(IDS, list(TEXTS), list(METADATAS), np.eye(len(TEXTS), dtype="f4"))
MODEL = ModelCollection(
    documents=[ModelDocument(*each, np.zeros(1)) for each in zip(IDS, TEXTS, METADATAS, strict=True)]
)
ORDERS = (["n"], ["-n"], ["s", "-n"], ["-s", "n"])


class TextSearchTests:
    @needs(SupportsTextSearch)
    def test_words_are_found_best_first(self, provider: Any, made: Any) -> None:
        name = made(STORED)
        found = provider.text_search(name, "apple")
        assert [each.document.id for each in found] == ["d1", "d0"]
        assert found[0].score > found[1].score > 0
        assert [each.document.id for each in provider.text_search(name, "red", where=where({"s": "two"}))] == ["d2"]
        assert len(provider.text_search(name, "red apple", top_k=1)) == 1
        assert [each.document.id for each in provider.text_search(name, "größe")] == ["d4"]

    @needs(SupportsTextSearch)
    def test_no_text_is_a_syntax_error(self, provider: Any, made: Any) -> None:
        name = made(STORED)
        for query in ('"', "AND OR (", "", "*"):
            assert {each.document.id for each in provider.text_search(name, query)} <= {"d1"}

    @needs(SupportsTextSearch)
    def test_words_of_an_unknown_collection_are_an_error(self, provider: Any) -> None:
        with pytest.raises(CollectionNotFoundError):
            provider.text_search("no-such-collection", "a")


class GatherTests:
    @needs(SupportsGather)
    def test_groups_come_whole_in_the_order_of_the_ids(self, provider: Any, made: Any) -> None:
        name, hits = made(STORED), ["d4", "d0", "d3", "d2"]
        groups = provider.gather(name, hits, GatherSpec(("s",), (OrderBy("n"),)))
        assert _ids_by_key(groups) == MODEL.groups(hits, ["s"], ["n"], 100)
        assert [each.rank for each in groups] == [1, 2, 3]
        assert [each.hits for each in groups] == [{"d4", "d2"}, {"d0"}, {"d3"}]

    @needs(SupportsGather)
    def test_a_group_is_cut_and_counted_whole(self, provider: Any, made: Any) -> None:
        (group,) = provider.gather(made(STORED), ["d0"], GatherSpec(("s",), (OrderBy("n"),), limit=1))
        assert ([each.id for each in group.documents], group.places, group.total) == (["d0"], (2,), 2)

    @needs(SupportsGather)
    def test_groups_may_share_several_fields(self, provider: Any, made: Any) -> None:
        groups = provider.gather(made(STORED), IDS, GatherSpec(("s", "n")))
        assert _ids_by_key(groups) == MODEL.groups(IDS, ["s", "n"], [], 100)

    @needs(SupportsGather)
    def test_a_window_gives_the_neighbours_of_each_hit_and_their_text(self, provider: Any, made: Any) -> None:
        name = made(STORED)
        (group,) = provider.gather(name, ["d1"], GatherSpec(("s",), (OrderBy("n"),), after=1, text=True))
        assert ([each.id for each in group.documents], group.places) == (["d1", "d0"], (1, 2))
        assert group.text == f"{TEXTS[1]}\n\n{TEXTS[0]}"
        (group,) = provider.gather(name, ["d0"], GatherSpec(("s",), (OrderBy("n"),), before=0))
        assert ([each.id for each in group.documents], group.places, group.text) == (["d0"], (2,), None)

    @needs(SupportsGather)
    def test_groups_of_an_unknown_collection_are_an_error(self, provider: Any) -> None:
        with pytest.raises(CollectionNotFoundError):
            provider.gather("no-such-collection", ["a"], GatherSpec(("s",)))


class OrderTests:
    @pytest.mark.parametrize("order", ORDERS, ids=",".join)
    @needs(SupportsOrderBy)
    def test_orders_are_typed_and_end_with_what_lacks_the_field(
        self, provider: Any, made: Any, order: list[str]
    ) -> None:
        name = made(STORED)
        asked = [OrderBy(each.removeprefix("-"), each.startswith("-")) for each in order]
        for condition in ({}, {"s": {"$exists": True}}):
            found, cursor = [], None
            while True:
                page = provider.ordered_documents(name, where(condition), order_by=asked, limit=2, cursor=cursor)
                found += [each.id for each in page.documents]
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert found == [each.id for each in MODEL.ordered(condition, order)]
            assert page.total == len(found)
        with pytest.raises(InvalidInputError):
            provider.ordered_documents(name, order_by=asked, limit=0)


def _ids_by_key(groups: list[Group]) -> list[tuple[Any, list[str]]]:
    return [(each.key, [document.id for document in each.documents]) for each in groups]
