"""Texts for the context tools: each is split, embedded and stored as a whole."""

from __future__ import annotations

import time

from retrieval.clock import milliseconds_since
from retrieval.context.items import document_id_of, to_source
from retrieval.ingest.identity import chunk_id
from retrieval.text_collections import TextCollections
from schemas.contracts.context import ContextDocument, IndexedText


class ContextIndex:
    """Indexes texts in one collection."""

    def __init__(self, texts: TextCollections, collection: str) -> None:
        self._texts = texts
        self._collection = collection

    def index(self, document: ContextDocument) -> IndexedText:
        """Index a text and return what was stored.

        Raises what `TextCollections.ingest` raises; nothing is stored then.
        """
        began = time.perf_counter()
        done = self._texts.ingest(self._collection, lambda embedding: to_source(document, embedding))
        stored_as = document_id_of(document)
        chunk_ids = [chunk_id(stored_as, index) for index in range(done.chunks)]
        return IndexedText(stored_as, chunk_ids, milliseconds_since(began))
