"""Which files are stored already, so that whoever keeps a folder in step uploads only the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from providers.base import SupportsMetadataFiltering
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.files import fingerprint_of
from retrieval.ingest.identity import file_ids, stored_name
from retrieval.ingest.ingestion import is_same_file
from retrieval.ingest.profiles import chunking_of
from retrieval.text_collections import TextCollections
from schemas.bounds import MAX_PAGE
from schemas.contracts.jobs import ComparedFiles, FileToCompare
from schemas.errors import CollectionNotFoundError
from schemas.records import Metadata
from schemas.settings import RetrievalSettings
from schemas.where import And, Equals, In

FILES_AT_ONCE = 100
"""The files of one query, each of which may be stored under several ids."""


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """Compares files with what is stored; usable by several threads. An upload may have files of `max_file_bytes`."""

    texts: TextCollections
    settings: RetrievalSettings
    max_file_bytes: int

    def compare(self, collection: str, files: Sequence[FileToCompare], metadata: Metadata) -> ComparedFiles:
        """Return which of the files an upload with this metadata would store for the first time, or again.

        Unchanged is a document of the same bytes, split and embedded as the service does it now. Raises
        EmbeddingFailureError when the collection's connection cannot be opened, and what the store raises.
        """
        embedding = self.texts.embedding(collection)
        label = chunking_of(self.settings, embedding).label
        as_now = {"chunking": label, "embedding_model": embedding.model, "given": fingerprint_of(metadata)}
        result = ComparedFiles(collection, self.max_file_bytes)
        try:
            for some in batches(files, FILES_AT_ONCE):
                self._compare(collection, some, as_now, result)
        except CollectionNotFoundError:
            return ComparedFiles(collection, self.max_file_bytes, missing=[each.name for each in files])
        return result

    def _compare(
        self, collection: str, files: Sequence[FileToCompare], as_now: Metadata, result: ComparedFiles
    ) -> None:
        reads = self.texts.corpus.open().able(SupportsMetadataFiltering)

        def count(names: Iterable[str]) -> int:
            ids = tuple(id for name in names for id in ids_of[name])
            return reads.documents(collection, In("document_id", ids), limit=1).total

        ids_of = {each.name: file_ids(stored_name(each.name)) for each in files}
        whole = And((In("document_id", tuple(chain(*ids_of.values()))), Equals("chunk_index", 0)))
        page = reads.documents(collection, whole, limit=MAX_PAGE)
        first_of = {each.metadata["document_id"]: each.metadata for each in page.documents}
        chunks_of: dict[str, int] = {}
        for each in files:
            stored = [first_of[id] for id in ids_of[each.name] if id in first_of]
            if not stored:
                result.missing.append(each.name)
            elif len(stored) == 1 and is_same_file(stored[0], {**as_now, "hash": each.sha256}):
                chunks_of[each.name] = stored[0]["chunk_count"]
            else:
                result.changed.append(each.name)
        # Chunks can be deleted one by one, too.
        if chunks_of and count(chunks_of) != sum(chunks_of.values()):
            broken = [name for name, chunks in chunks_of.items() if count([name]) != chunks]
            result.changed += broken
            result.unchanged -= len(broken)
        result.unchanged += len(chunks_of)
