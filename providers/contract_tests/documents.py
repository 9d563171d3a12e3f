"""Documents as they are read: by their ids, and in pages."""

from __future__ import annotations

from typing import Any

import pytest

from providers.base import SupportsMetadataFiltering
from providers.contract_tests.abilities import needs
from providers.contract_tests.samples import batch, check_embedding, numbered, where
from schemas.errors import InvalidInputError
from schemas.records import DocumentBatch

AWKWARD_IDS = (
    "with space",
    "ünïcödé 日本語",
    "a/b?c#d&e=%41",
    "'\"\\",
    "x" * 300,
    "5",
    "12345678-1234-5678-1234-567812345678",
)


class DocumentTests:
    metrics: tuple[str, ...]

    @needs(SupportsMetadataFiltering)
    def test_documents_come_back_as_they_went(self, provider: Any, made: Any, documents_of: Any) -> None:
        stored = batch(("a", {"t": "ä\n", "n": -1, "f": 1.5, "b": True, "l": ["x", "y"]}), ("b", {}))
        name = made(DocumentBatch(stored.ids, ["Text ü", ""], stored.metadatas, stored.embeddings))
        found = {each.id: each for each in documents_of(name)}
        assert {each: (found[each].text, found[each].metadata) for each in found} == {
            "a": ("Text ü", stored.metadatas[0]),
            "b": ("", {}),
        }
        assert all(each.embedding is None for each in found.values())

    @needs(SupportsMetadataFiltering)
    def test_embeddings_come_back_when_asked_for(self, provider: Any, made: Any) -> None:
        stored = batch(("a", {}), ("b", {}))
        for metric in self.metrics:
            name = made(stored, metric=metric)
            found = {each.id: each.embedding for each in provider.documents(name, with_embeddings=True).documents}
            for document_id, embedding in zip(stored.ids, stored.embeddings, strict=True):
                check_embedding(found[document_id], embedding, metric)

    @needs(SupportsMetadataFiltering)
    def test_documents_are_found_by_their_ids_in_the_order_asked_for(self, provider: Any, made: Any) -> None:
        stored = batch(("a", {"n": 1}), ("b", {"n": 2}), *((each, {"n": 3}) for each in AWKWARD_IDS))
        for metric in self.metrics:
            name = made(stored, metric=metric)
            found = provider.documents_by_id(name, [*AWKWARD_IDS, "b", "never", "a", "b"], with_embeddings=True)
            assert [each.id for each in found] == [*AWKWARD_IDS, "b", "a"]
            assert [each.metadata["n"] for each in found[-2:]] == [2, 1]
            check_embedding(found[-1].embedding, stored.embeddings[0], metric)
            assert provider.documents_by_id(name, []) == []
            assert provider.documents_by_id(name, ["b"])[0].embedding is None

    @needs(SupportsMetadataFiltering)
    def test_an_empty_collection_has_no_documents(self, provider: Any, made: Any) -> None:
        name = made()
        assert provider.documents_by_id(name, ["a"]) == []
        page = provider.documents(name)
        assert (page.documents, page.total, page.next_cursor) == ([], 0, None)

    @needs(SupportsMetadataFiltering)
    def test_too_many_ids_at_once_are_refused(self, provider: Any, made: Any) -> None:
        name = made(batch(("a", {})))
        with pytest.raises(InvalidInputError, match="1000"):
            provider.documents_by_id(name, [str(number) for number in range(1001)])

    @needs(SupportsMetadataFiltering)
    def test_pages_hold_each_document_once_and_the_exact_total(
        self, provider: Any, made: Any, documents_of: Any
    ) -> None:
        name = made(numbered(23))
        for condition, expected in (({}, 23), ({"n": {"$gte": 10}}, 13), ({"n": -1}, 0), ({"n": {"$lt": 5}}, 5)):
            found, cursor, sizes = [], None, []
            while True:
                page = provider.documents(name, where(condition), limit=5, cursor=cursor)
                found += [each.id for each in page.documents]
                sizes.append(len(page.documents))
                assert page.total == expected
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert len(found) == len(set(found)) == expected
            assert all(size == 5 for size in sizes[:-1])
            assert found == [each.id for each in documents_of(name, where(condition))]

    @needs(SupportsMetadataFiltering)
    def test_a_cursor_is_of_one_filter_and_no_other(self, provider: Any, made: Any) -> None:
        name = made(numbered(4))
        cursor = provider.documents(name, where({"n": {"$gt": 0}}), limit=1).next_cursor
        for condition, given in (({"n": {"$gt": 1}}, cursor), ({}, "rubbish"), ({}, "ä"), ({}, "")):
            with pytest.raises(InvalidInputError) as raised:
                provider.documents(name, where(condition), limit=1, cursor=given)
            assert raised.value.details["field"] == "cursor"

    @needs(SupportsMetadataFiltering)
    def test_a_page_has_at_least_one_document(self, provider: Any, made: Any) -> None:
        name = made(batch(("a", {})))
        for limit in (0, -1):
            with pytest.raises(InvalidInputError):
                provider.documents(name, limit=limit)
