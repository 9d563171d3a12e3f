"""The contract of a provider of documents, as one class."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from providers.base import RagProvider, SupportsDynamicCollections, SupportsEmbeddings, capabilities
from providers.contract_tests.abilities import AbilityTests, can
from providers.contract_tests.collection import CollectionTests
from providers.contract_tests.documents import DocumentTests
from providers.contract_tests.filters import FilterTests
from providers.contract_tests.provider import ProviderTests
from providers.contract_tests.samples import NO_DOCUMENTS, batch, errors_of, where
from providers.contract_tests.search import SearchTests
from providers.contract_tests.words_and_groups import GatherTests, OrderTests, TextSearchTests
from providers.contract_tests.writing import WritingTests
from schemas.records import METRICS, Document, DocumentBatch, Metadata

EVERYTHING = where({})


class RagProviderTests(
    ProviderTests,
    AbilityTests,
    CollectionTests,
    DocumentTests,
    WritingTests,
    FilterTests,
    SearchTests,
    TextSearchTests,
    GatherTests,
    OrderTests,
):
    """Subclasses override the fixture `provider`, and `fill` when the provider does not store documents itself.

    `metrics` are those that its collections may have. `unsupported_filters` are filters of the wire that the service
    cannot answer exactly, which must be refused. `finds_at_once` says that a document is its own nearest as soon as it
    is stored, also while others are; where not, the provider's `limits` say so, and nine of ten must be afterwards.
    """

    metrics: tuple[str, ...] = METRICS
    unsupported_filters: tuple[dict[str, Any], ...] = ()
    finds_at_once = True

    def fill(self, provider: Any, name: str, documents: DocumentBatch, metadata: Metadata, metric: str) -> None:
        """Put a collection with these documents, which may be none, where the provider finds it."""
        if not (can(provider, SupportsDynamicCollections) and can(provider, SupportsEmbeddings)):
            pytest.fail("override `fill`: the provider cannot make and fill a collection itself")
        provider.create_collection(name, metadata, metric=metric)
        if documents.ids:
            provider.add_documents(name, documents)

    @pytest.fixture
    def made(self, provider: Any) -> Iterator[Callable[..., str]]:
        """Yield `made(documents, metric=…, **metadata)`, which returns the name of a new collection of this test."""
        names: list[str] = []

        def make(documents: DocumentBatch = NO_DOCUMENTS, *, metric: str | None = None, **metadata: Any) -> str:
            names.append(f"test-{uuid.uuid4().hex[:16]}")
            self.fill(provider, names[-1], documents, metadata, metric or self.metrics[0])
            return names[-1]

        yield make
        if can(provider, SupportsDynamicCollections):
            for each in {*names} & {collection.name for collection in provider.collections()}:
                provider.delete_collection(each)

    @pytest.fixture
    def documents_of(self, provider: Any) -> Callable[..., list[Document]]:
        """Return `documents_of(collection, where)`: all that match, read page by page."""

        def read(collection: str, condition: Any = EVERYTHING, *, limit: int = 1000) -> list[Document]:
            found: list[Document] = []
            cursor = None
            while True:
                page = provider.documents(collection, condition, limit=limit, cursor=cursor)
                found += page.documents
                cursor = page.next_cursor
                if cursor is None:
                    assert page.total == len(found)
                    return found

        return read

    def test_it_is_a_provider_of_documents(self, provider: Any) -> None:
        assert isinstance(provider, RagProvider)
        assert provider.kind == "rag"
        assert "collections" in capabilities(type(provider))

    def test_health_counts_the_collections(self, provider: Any, made: Any) -> None:
        made(batch(("a", {})))
        assert provider.health().details["collections_count"] == len(provider.collections()) > 0

    def test_collections_of_a_service_that_is_gone_are_an_error(self, gone: Any) -> None:
        assert list(errors_of([gone.collections, lambda: gone.collection("abc")]))
