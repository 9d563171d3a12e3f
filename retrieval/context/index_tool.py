"""The tool `rag_context_index`: a text is split, embedded and stored as a whole."""

from __future__ import annotations

import time
from typing import Any

from retrieval.clock import milliseconds_since
from retrieval.context.items import document_id_of, to_source
from retrieval.ingest.drafts import chunk_id
from retrieval.text_collections import TextCollections
from schemas.contracts.context import IndexedText


class ContextIndex:
    """Indexes texts in one collection."""

    def __init__(self, texts: TextCollections, collection: str) -> None:
        self._texts = texts
        self._collection = collection

    def run(self, arguments: dict[str, Any]) -> IndexedText:
        """Index a text and return what was stored.

        Raises InvalidInputError, EmbeddingFailureError, VectorDBWriteError and ConflictError; nothing is stored then.
        """
        began = time.perf_counter()
        done = self._texts.ingest(self._collection, lambda embedding: to_source(arguments, embedding))
        document = document_id_of(arguments)
        chunk_ids = [chunk_id(document, index) for index in range(done.chunks)]
        return IndexedText(document, chunk_ids, milliseconds_since(began))
