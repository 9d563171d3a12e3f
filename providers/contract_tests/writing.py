"""Documents as they are stored: added, replaced, deleted, refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from providers.base import SupportsConditionalWrites, SupportsEmbeddings, SupportsMetadataFiltering, SupportsSearch
from providers.contract_tests.abilities import can, needs
from providers.contract_tests.documents import AWKWARD_IDS
from providers.contract_tests.samples import NO_DOCUMENTS, batch, ids_of, where
from schemas.errors import AlreadyThereError, InvalidInputError
from schemas.records import DocumentBatch

VECTOR = np.ones((1, 4), "f4")
WRONG = {
    "none": NO_DOCUMENTS,
    "twice": DocumentBatch(["a", "a"], ["", ""], [{}, {}], np.ones((2, 4), "f4")),
    "no id": DocumentBatch([""], [""], [{}], VECTOR),
    "dimension": DocumentBatch(["a"], [""], [{}], np.ones((1, 3), "f4")),
    "nan": DocumentBatch(["a"], [""], [{}], np.array([[1, np.nan, 1, 1]], "f4")),
    "too large": DocumentBatch(["a"], [""], [{}], np.array([[1, 1e300, 1, 1]])),
    "infinite": DocumentBatch(["a"], [""], [{"n": float("inf")}], VECTOR),
    "70 bits": DocumentBatch(["a"], [""], [{"n": 2**70}], VECTOR),
    "half a character": DocumentBatch(["a"], ["\ud800"], [{}], VECTOR),
    "a set": DocumentBatch(["a"], [""], [{"a": {1, 2}}], VECTOR),
}


class WritingTests:
    metrics: tuple[str, ...]
    finds_at_once: bool

    @needs(SupportsEmbeddings, SupportsSearch)
    def test_what_is_added_counts_and_is_found(self, provider: Any, made: Any) -> None:
        name = made()
        assert provider.add_documents(name, batch(("a", {}), ("b", {}))) is True
        assert (provider.collection(name).count, provider.collection(name).dimension) == (2, 4)
        assert {each.document.id for each in provider.search(name, np.ones(4, "f4"))} == {"a", "b"}

    @needs(SupportsEmbeddings, SupportsMetadataFiltering, SupportsSearch)
    def test_a_document_of_the_same_id_is_replaced_as_a_whole(
        self, provider: Any, made: Any, documents_of: Any
    ) -> None:
        for metric in self.metrics:
            before = batch(("a", {"old": 1, "both": 1, "list": ["x"]}, [1, 0]), ("b", {"old": 1}, [0, 1]))
            name = made(before, metric=metric)
            provider.add_documents(name, DocumentBatch(["a"], ["new"], [{"both": "2"}], np.array([[0, 5]], "f4")))
            assert provider.collection(name).count == 2
            found = {each.id: each for each in documents_of(name)}
            assert (found["a"].text, found["a"].metadata) == ("new", {"both": "2"})
            assert found["b"].metadata == {"old": 1}
            assert ids_of(documents_of(name, where({"old": 1}))) == {"b"}
            assert ids_of(documents_of(name, where({"list": {"$contains": "x"}}))) == set()
            nearest = provider.search(name, np.array([0, 5], "f4"), top_k=2)
            found_at = {each.document.id: each.distance for each in nearest}
            assert found_at["a"] == {"cosine": pytest.approx(0, abs=1e-6), "l2": 0, "ip": -24}[metric]

    @needs(SupportsEmbeddings, SupportsMetadataFiltering)
    def test_what_is_replaced_goes_when_it_is_not_among_the_new(
        self, provider: Any, made: Any, documents_of: Any
    ) -> None:
        name = made(batch(("a", {"s": 1}), ("b", {"s": 1}), ("c", {"s": 2}), ("d", {})))
        new = batch(("b", {"s": 1, "v": 2}), ("e", {"s": 2}))
        provider.add_documents(name, new, replace_where=where({"s": 1}))
        assert ids_of(documents_of(name)) == {"b", "c", "d", "e"}
        provider.add_documents(name, batch(("f", {})), replace_where=where({}))
        assert ids_of(documents_of(name)) == {"f"}

    @needs(SupportsEmbeddings, SupportsMetadataFiltering)
    def test_documents_are_deleted_by_ids_or_by_filter(self, provider: Any, made: Any, documents_of: Any) -> None:
        name = made(batch(*((f"d{number}", {"n": number, "odd": number % 2 == 1}) for number in range(8))))
        provider.delete_documents(name, ids=["d0", "d2", "never"])
        provider.delete_documents(name, where=where({"odd": True, "n": {"$gt": 4}}))
        provider.delete_documents(name, where=where({"n": {"$in": []}}))
        assert ids_of(documents_of(name)) == {"d1", "d3", "d4", "d6"}
        provider.delete_documents(name, where=where({"missing": {"$ne": 1}}))
        assert provider.collection(name).count == 0

    @needs(SupportsEmbeddings)
    def test_a_deletion_says_what_it_means(self, provider: Any, made: Any) -> None:
        name = made(batch(("a", {"a": 1})))
        everything = [{"where": where({})}, {"where": where({"$and": [{}]})}]
        selections: list[dict[str, Any]] = [{}, {"ids": ["a"], "where": where({"a": 1})}, *everything]
        for selection in selections:
            with pytest.raises(InvalidInputError):
                provider.delete_documents(name, **selection)
        assert provider.collection(name).count == 1

    @needs(SupportsEmbeddings, SupportsMetadataFiltering)
    def test_ids_are_any_text(self, provider: Any, made: Any, documents_of: Any) -> None:
        name = made(batch(*((each, {"n": number}) for number, each in enumerate(AWKWARD_IDS))))
        assert ids_of(documents_of(name)) == set(AWKWARD_IDS)
        provider.add_documents(name, batch(*((each, {"n": -1}) for each in AWKWARD_IDS)))
        assert ids_of(documents_of(name, where({"n": -1}))) == set(AWKWARD_IDS)
        assert provider.collection(name).count == len(AWKWARD_IDS)
        for each in AWKWARD_IDS:
            provider.delete_documents(name, ids=[each])
            assert each not in ids_of(documents_of(name))
        assert provider.collection(name).count == 0

    def test_a_write_with_a_condition_stores_everything_or_nothing(
        self, provider: Any, made: Any, documents_of: Any
    ) -> None:
        if not can(provider, SupportsConditionalWrites):
            # Users are not shown this ability, so no error names it; only half of it would be wrong.
            assert not hasattr(provider, "add_documents_unless"), "let it inherit SupportsConditionalWrites"
            return
        name = made(batch(("a", {"n": 1}), ("b", {"n": 2})))
        new = batch(("b", {"n": 9}), ("c", {"n": 3}))
        with pytest.raises(AlreadyThereError):
            provider.add_documents_unless(name, new, where({"n": {"$gte": 2}}))
        assert {each.id: each.metadata["n"] for each in documents_of(name)} == {"a": 1, "b": 2}
        assert provider.add_documents_unless(name, new, where({"n": 3})) is True
        assert {each.id: each.metadata["n"] for each in documents_of(name)} == {"a": 1, "b": 9, "c": 3}
        with pytest.raises(InvalidInputError):
            provider.add_documents_unless(name, NO_DOCUMENTS, where({"n": 4}))

        def write(thread: int) -> bool:
            try:
                provider.add_documents_unless(name, batch((f"t{thread}", {"n": 5})), where({"n": 5}))
            except AlreadyThereError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(write, range(8))) == 1
        assert documents_of(name, where({"n": 5}))[1:] == []

    @pytest.mark.parametrize("wrong", WRONG)
    @needs(SupportsEmbeddings)
    def test_wrong_documents_are_refused_and_nothing_is_stored(self, provider: Any, made: Any, wrong: str) -> None:
        name = made(batch(("first", {"n": 1})))
        replaced: Any = {"replace_where": where({"n": 1})} if can(provider, SupportsMetadataFiltering) else {}
        with pytest.raises(InvalidInputError):
            provider.add_documents(name, WRONG[wrong], **replaced)
        assert provider.collection(name).count == 1
        if can(provider, SupportsMetadataFiltering):
            assert [each.id for each in provider.documents(name).documents] == ["first"]

    @needs(SupportsEmbeddings)
    def test_a_wrong_dimension_is_told_with_both_numbers(self, provider: Any, made: Any) -> None:
        name = made(batch(("a", {})))
        with pytest.raises(InvalidInputError, match="has 4, got 3") as raised:
            provider.add_documents(name, batch(("b", {}), dimension=3))
        assert (raised.value.details["expected"], raised.value.details["actual"]) == (4, 3)
        assert raised.value.code == "dimension_mismatch"

    @needs(SupportsEmbeddings, SupportsMetadataFiltering, SupportsSearch)
    def test_what_eight_threads_write_at_once_is_read_at_once_and_found_as_the_limits_say(
        self, provider: Any, made: Any, documents_of: Any
    ) -> None:
        metric = "l2" if "l2" in self.metrics else self.metrics[0]
        name = made(batch(("first", {"thread": -1})), metric=metric)
        vectors = {
            f"t{thread}-{number}": np.array([thread, number, 0, 1], "f4") for thread in range(8) for number in range(5)
        }

        def is_found(document_id: str) -> bool:
            (nearest,) = provider.search(name, vectors[document_id], top_k=1)
            return nearest.document.id == document_id

        def work(thread: int) -> None:
            for number in range(5):
                document_id = f"t{thread}-{number}"
                provider.add_documents(name, batch((document_id, {"thread": thread}, vectors[document_id])))
                (stored,) = provider.documents_by_id(name, [document_id])
                assert stored.metadata == {"thread": thread}
                if metric == "l2":
                    assert is_found(document_id) or not self.finds_at_once, document_id
            assert provider.documents(name, where({"thread": thread})).total == 5

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert len(documents_of(name)) == 41
        if metric == "l2":
            lost = [each for each in vectors if not is_found(each)]
            assert len(lost) <= (0 if self.finds_at_once else len(vectors) // 10), lost
