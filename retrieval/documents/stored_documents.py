"""The documents that are stored as text, whatever stored them: page through them, look one up, delete it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from providers.base import SupportsEmbeddings, SupportsMetadataFiltering
from providers.cursors import decode_cursor, encode_cursor
from retrieval.documents.originals import Originals
from retrieval.ingest.drafts import FIRST_CHUNKS, KIND, WHOLE
from retrieval.search.corpus import OpenCorpus
from retrieval.text_collections import TextCollections
from schemas.access.callers import current
from schemas.connections import CollectionInfo
from schemas.contracts.text_documents import Deleted, Filters, KnownChunk, KnownDocument
from schemas.errors import CollectionNotFoundError, ConflictError, NotFoundError
from schemas.names import spellings_of_id
from schemas.plurals import counted
from schemas.records import Document, Metadata
from schemas.storage.reembedding import recorded_model
from schemas.where import And, Contains, Equals, In, Or, Where, all_of

NO_FILTERS = Filters()


class AmbiguousDocumentError(ConflictError):
    """Several collections have a document of that id."""

    code = "ambiguous_document"

    def __init__(self, document_id: str, collections: list[str]) -> None:
        sentence = f"Document '{document_id}' is in {', '.join(collections)}: say which with 'collection'"
        super().__init__(sentence, id=document_id, field="collection", allowed=collections)


class OriginalNotKeptError(NotFoundError):
    code = "original_not_kept"

    def __init__(self, document_id: str) -> None:
        super().__init__(f"The original of document '{document_id}' is not kept", id=document_id)


class DocumentPage(NamedTuple):
    """A page of documents, and how many match in all."""

    documents: list[KnownDocument]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A document in a collection, selected by `ids` when it is stored whole and by `where` when it has chunks.
    `chunks` is None where nobody counted them."""

    corpus: OpenCorpus
    info: CollectionInfo
    first: Document
    chunks: int | None = None
    ids: list[str] | None = None
    where: Where | None = None


class StoredDocuments:
    """The documents of the text collections; usable by several threads."""

    def __init__(self, texts: TextCollections, originals: Originals) -> None:
        self._texts = texts
        self._originals = originals

    def page(
        self,
        names: Sequence[str] | None = None,
        *,
        filters: Filters = NO_FILTERS,
        limit: int = 100,
        cursor: str | None = None,
    ) -> DocumentPage:
        """Return a page of the documents that match, in the collections that `names` gives as `CollectionChoice.choose`
        takes them.

        Collections come by name, and the documents of each in the order of their first ingestion. Raises
        InvalidInputError for a wrong cursor, CollectionNotFoundError and VectorDBUnavailableError.
        """
        chosen = self._texts.searched(names)
        reads = chosen.corpus.able(SupportsMetadataFiltering)
        where = all_of(to_where(filters), Or((FIRST_CHUNKS, WHOLE)))
        asked = sorted(chosen.asked, key=lambda each: each.name)
        bound_to = (where, None if names is None else sorted(names))
        # The name of the collection that the page begins with, and the cursor within it. No name has a blank.
        begin, _, inner = ("" if cursor is None else str(decode_cursor(cursor, bound_to))).partition(" ")
        found: list[KnownDocument] = []
        total, following = 0, None
        for each in asked:
            is_read = each.name >= begin and following is None and len(found) < limit
            own = (inner or None) if each.name == begin else None
            try:
                page = reads.documents(each.name, where, limit=limit - len(found) if is_read else 1, cursor=own)
            except CollectionNotFoundError:  # deleted meanwhile
                continue
            total += page.total
            if is_read:
                found += [self._known(_Found(chosen.corpus, each, first)) for first in page.documents]
                if page.next_cursor is not None:
                    following = encode_cursor(f"{each.name} {page.next_cursor}", bound_to)
            elif each.name >= begin and following is None and page.total:
                following = encode_cursor(f"{each.name} ", bound_to)
        return DocumentPage(found, total, following)

    def one(self, document_id: str, collection: str | None = None) -> KnownDocument:
        """Return a document, from the named collection or the one that has it.

        Raises NotFoundError, CollectionNotFoundError, and AmbiguousDocumentError when several collections have one.
        """
        return self._known(self._home(document_id, collection))

    def with_chunks(self, document_id: str, collection: str | None = None) -> tuple[KnownDocument, list[KnownChunk]]:
        """Return a document and its chunks in order. Raises what `one` raises."""
        found = self._home(document_id, collection)
        chunks = [found.first]
        if found.where is not None:
            chunks = list(found.corpus.able(SupportsMetadataFiltering).all_documents(found.info.name, found.where))
        chunks.sort(key=lambda each: number_in(each.metadata, "chunk_index"))
        return self._known(found), [_chunk(each) for each in chunks]

    def original(self, document_id: str, collection: str | None = None) -> tuple[KnownDocument, Path]:
        """Return a document and where its original lies. Raises OriginalNotKeptError, and what `one` raises."""
        found = self._home(document_id, collection)
        path = self._original(found)
        if path is None:
            raise OriginalNotKeptError(document_id)
        return self._known(found), path

    def delete(self, document_id: str, collection: str | None = None) -> Deleted:
        """Delete a document with its chunks and its original. Raises what `one` raises."""
        found = self._home(document_id, collection)
        found.corpus.able(SupportsEmbeddings).delete_documents(found.info.name, ids=found.ids, where=found.where)
        self._originals.forget(found.info.id or found.info.name, str(found.first.metadata.get("document_id")))
        return Deleted(found.info.name, found.chunks or 0)

    def sweep_originals(self) -> None:
        """Remove the originals of documents that are gone or have another content now."""
        self._originals.sweep(self._stored_in())

    def holders(self, files: Iterable[Path]) -> dict[Path, str]:
        """Return those of the files that are originals of stored documents, each with the name of what it is."""
        originals = {file: told for file in files if (told := self._originals.told_by(file)) is not None}
        if not originals:
            return {}
        stored_in = self._stored_in()
        return {
            file: f"original of document '{told[1]}' in collection '{name}'"
            for file, told in originals.items()
            if (name := stored_in(*told)) is not None
        }

    def _stored_in(self) -> Callable[[str, str, str], str | None]:
        """Return the function that takes what an original tells, and returns the name of the collection that has its
        document with this very content; None when none has."""
        corpus = self._texts.corpus.open()
        reads = corpus.able(SupportsMetadataFiltering)
        names = {each.id or each.name: each.name for each in corpus.collections.values()}

        def stored_in(collection_id: str, document_id: str, sha256: str) -> str | None:
            name = names.get(collection_id)
            where = And((Equals("document_id", document_id), Equals("hash", sha256)))
            return name if name is not None and reads.documents(name, where, limit=1).total else None

        return stored_in

    def _home(self, document_id: str, collection: str | None) -> _Found:
        chosen = self._texts.searched(None if collection is None else (collection,))
        homes = [found for each in chosen.asked if (found := _find(chosen.corpus, each, document_id))]
        if not homes:
            asked = "" if collection is not None else f" in the {counted(len(chosen.asked), 'text collection')} asked"
            raise NotFoundError(f"Document '{document_id}' not found{asked}", code="document_not_found", id=document_id)
        if len(homes) > 1:
            raise AmbiguousDocumentError(document_id, sorted(found.info.name for found in homes))
        return homes[0]

    def _known(self, found: _Found) -> KnownDocument:
        told, chunks = found.first.metadata, found.chunks
        # What is stored in one piece has only its owner's metadata, whose names may mean something else.
        is_whole = "document_id" not in told
        own = {} if is_whole else told
        return KnownDocument(
            document_id=str(told.get("document_id", found.first.id)),
            collection=found.info.name,
            source=text_in(told, "source", ""),
            path=text_in(told, "path", ""),
            title=text_in(told, "title", ""),
            hash=own.get("hash"),
            tags=tags_in(told),
            chunk_count=(1 if is_whole else number_in(told, "chunk_count")) if chunks is None else chunks,
            embedding_model=recorded_model(found.info.metadata) or text_in(own, "embedding_model", "") or None,
            created_at=own.get("created_at"),
            updated_at=own.get("updated_at"),
            kind=text_in(told, KIND, "") or None,
            pages=number_in(told, "pages") or None,
            size_bytes=number_in(own, "bytes") or None,
            has_original=self._original(found) is not None,
        )

    def _original(self, found: _Found) -> Path | None:
        """Return where the original lies, None when it is not kept, or holds more than the chunks that the caller
        sees."""
        told, info, chunks = found.first.metadata, found.info, found.chunks
        path = self._originals.find(info.id or info.name, str(told.get("document_id")), told.get("hash"))
        if path is None or not current().is_filtered:
            return path
        if chunks is None:
            of_document = Equals("document_id", str(told["document_id"]))
            reads = found.corpus.able(SupportsMetadataFiltering)
            chunks = reads.documents(info.name, of_document, limit=1).total
        # Only the first chunk says how many there are: who does not see it does not see all of them.
        return path if chunks == number_in(told, "chunk_count") else None


def to_where(filters: Filters) -> Where:
    """Return what source, path, kind and one of the tags must match, where they are given."""
    given = {"source": filters.source, "path": filters.path, KIND: filters.kind}
    same = [Equals(name, value) for name, value in given.items() if value is not None]
    tags = tuple(Contains("tags", tag) for tag in filters.tags)
    return all_of(*same, *tags) if len(tags) < 2 else all_of(*same, Or(tags))


def text_in(metadata: Metadata, name: str, usual: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) and value else usual


def number_in(metadata: Metadata, name: str) -> int:
    value = metadata.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def tags_in(metadata: Metadata) -> list[str]:
    tags = metadata.get("tags")
    return [each for each in tags if isinstance(each, str)] if isinstance(tags, list) else []


def _find(corpus: OpenCorpus, info: CollectionInfo, document_id: str) -> _Found | None:
    reads, ids = corpus.able(SupportsMetadataFiltering), spellings_of_id(document_id)
    where = In("document_id", tuple(ids))
    # The first chunk has the metadata of the whole; a document without one is told by any other.
    for chunks in (And((where, Equals("chunk_index", 0))), where):
        if firsts := reads.documents(info.name, chunks, limit=1).documents:
            total = reads.documents(info.name, where, limit=1).total
            return _Found(corpus, info, firsts[0], total, where=where)
    whole = [each for each in reads.documents_by_id(info.name, ids) if "document_id" not in each.metadata]
    return _Found(corpus, info, whole[0], len(whole), ids=[each.id for each in whole]) if whole else None


def _chunk(stored: Document) -> KnownChunk:
    told = stored.metadata
    return KnownChunk(
        id=stored.id,
        text=stored.text,
        chunk_index=number_in(told, "chunk_index"),
        section=text_in(told, "section", "") or None,
        page=told.get("page"),
        last_page=told.get("last_page"),
        sheet=told.get("sheet"),
        slide=told.get("slide"),
        start_line=told.get("start_line"),
    )
