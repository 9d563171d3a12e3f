"""Haystack's own suites for document stores, sync and async, on Haystack's store for Chroma.

The store takes no headers, and Chroma's asynchronous client ignores its providers of tokens, so the key is the password of the address.
"""

from __future__ import annotations

import operator
import os
import uuid
from contextlib import suppress

import chromadb
import pytest
from chromadb.api.types import EmbeddingFunction
from chromadb.errors import NotFoundError
from haystack.testing import document_store as suites
from haystack.testing import document_store_async as async_suites
from haystack_integrations.document_stores.chroma import ChromaDocumentStore
from haystack_integrations.document_stores.chroma import document_store as its_module

PORT = int(os.environ["CHROMA_PORT"])
ADDRESS = f"http://key:{os.environ['CHROMA_KEY']}@127.0.0.1:{PORT}"


class Plain(EmbeddingFunction):
    """Embeds any text, without a model to fetch."""

    def __init__(self):
        pass

    def __call__(self, input):
        return [[float(len(text)), 1.0, *[0.0] * 766] for text in input]


@pytest.fixture(scope="session")
def client():
    return chromadb.HttpClient(host=ADDRESS, port=PORT)


class OnChroma:
    @pytest.fixture
    def document_store(self, client, monkeypatch):
        monkeypatch.setattr(its_module, "get_embedding_function", lambda *_, **__: Plain())
        name = f"haystack-{uuid.uuid4().hex[:12]}"
        yield ChromaDocumentStore(name, "plain", host=ADDRESS, port=PORT)
        with suppress(NotFoundError):  # a store makes its collection when it is first asked
            client.delete_collection(name)

    @staticmethod
    def assert_documents_are_equal(received, expected):
        """Compare what does not depend on how a store embeds; as Haystack's tests of this store do, in any order."""
        by_id = operator.attrgetter("id")
        told = [(each.id, each.content, each.meta) for each in sorted(received, key=by_id)]
        assert told == [(each.id, each.content, each.meta) for each in sorted(expected, key=by_id)]


class TestSync(
    OnChroma,
    suites.DocumentStoreBaseExtendedTests,
    suites.CountDocumentsByFilterTest,
    suites.CountUniqueMetadataByFilterTest,
    suites.GetMetadataFieldsInfoTest,
    suites.GetMetadataFieldMinMaxTest,
    suites.GetMetadataFieldUniqueValuesTest,
):
    pass


class TestAsync(
    OnChroma,
    async_suites.CountDocumentsAsyncTest,
    async_suites.WriteDocumentsAsyncTest,
    async_suites.DeleteDocumentsAsyncTest,
    async_suites.FilterDocumentsAsyncTest,
    async_suites.DeleteAllAsyncTest,
    async_suites.DeleteByFilterAsyncTest,
    async_suites.UpdateByFilterAsyncTest,
    async_suites.CountDocumentsByFilterAsyncTest,
    async_suites.CountUniqueMetadataByFilterAsyncTest,
    async_suites.GetMetadataFieldsInfoAsyncTest,
    async_suites.GetMetadataFieldMinMaxAsyncTest,
    async_suites.GetMetadataFieldUniqueValuesAsyncTest,
):
    pass
