"""LangChain's own suite for vector stores, on LangChain's store for Chroma."""

from __future__ import annotations

import os
import uuid

import pytest
from langchain_chroma import Chroma
from langchain_tests.integration_tests import VectorStoreIntegrationTests


class TestChroma(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self):
        store = Chroma(
            f"langchain-{uuid.uuid4().hex[:12]}",
            self.get_embeddings(),
            host="127.0.0.1",
            port=int(os.environ["CHROMA_PORT"]),
            headers={"Authorization": f"Bearer {os.environ['CHROMA_KEY']}"},
        )
        yield store
        store.delete_collection()
