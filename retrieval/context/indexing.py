"""The tool `rag_context_index`: a text, split and embedded and stored as a whole."""

from __future__ import annotations

import time
from typing import Any

from retrieval.clock import milliseconds_since
from retrieval.context.documents import document_id_of, to_source
from retrieval.drafts import chunk_id
from retrieval.text_collections import TextCollections


class ContextIndex:
    def __init__(self, texts: TextCollections, collection: str) -> None:
        self._texts = texts
        self._collection = collection

    def run(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What was stored. Raises InvalidInputError, EmbeddingFailureError, VectorDBWriteError, ConflictError; nothing
        is stored then."""
        began = time.perf_counter()
        done = self._texts.ingest(self._collection, lambda embedding: to_source(arguments, embedding))
        document = document_id_of(arguments)
        return {
            "success": True,
            "chunksIndexed": done.chunks,
            "vectorIds": [chunk_id(document, index) for index in range(done.chunks)],
            "latencyMs": milliseconds_since(began),
            "documentId": document,
        }
