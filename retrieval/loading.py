"""Load files into a collection: read, split, embed what is new, store what changed. A second run changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from providers.embeddings.base import EmbeddingConnection
from retrieval.chunking import DEFAULT_MAX_TOKENS
from retrieval.drafts import Draft, draft_of_record, drafts_of_file, text_to_embed
from retrieval.sources import SourceError, SourceFile, SourceKind, find_sources, read_records
from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError
from schemas.names import check_collection_name
from schemas.records import Metadata, Vector

BATCH_DOCUMENTS = 100

_T = TypeVar("_T")
_Stored = dict[str, dict[str, Any]]  # documents of the wire by id


class DocumentStore(Protocol):
    """What loading needs of a storage provider; documents and answers as on the wire (`chromadb-wrapper`)."""

    def collection(self, name: str) -> dict[str, Any]: ...

    def ensure_collection(self, name: str, metadata: Metadata) -> dict[str, Any]: ...

    def documents(
        self,
        name: str,
        where: dict[str, Any] | None = None,
        *,
        ids: Sequence[str] | None = None,
        include: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]: ...

    def add_documents(
        self, name: str, documents: Sequence[dict[str, Any]], *, replace_where: dict[str, Any] | None = None
    ) -> dict[str, Any]: ...

    def delete_documents(self, name: str, *, where: dict[str, Any] | None = None) -> int: ...


@dataclass(slots=True)
class LoadReport:
    """What a load did. sources: files read; chunks: the documents they make; skipped: files without text, repeated
    lines and lines without text; indexed: False while vector queries do not see all of it yet."""

    sources: int = 0
    chunks: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    skipped: int = 0
    errors: list[SourceError] = field(default_factory=list)
    indexed: bool = True

    @property
    def changed(self) -> bool:
        return bool(self.created or self.updated or self.deleted)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load has come: bytes of all files, and documents so far."""

    source: str
    done_bytes: int
    total_bytes: int
    chunks: int


def load(
    path: Path,
    *,
    store: DocumentStore,
    collection: str,
    embed: EmbeddingConnection,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    source_prefix: str = "",
    max_tokens: int = DEFAULT_MAX_TOKENS,
) -> LoadReport:
    """Bring `collection` up to date with the files at `path`; `source_prefix` is put before each source's name.

    Markdown and text files are split, and a changed file's chunks are swapped in one request. A JSONL record is one
    document, under its own id if it has one. Bad files, lines and documents are in the report and stop nothing else.
    An embedding model other than the collection's → ConflictError before anything is embedded; a service that fails
    stops the load with its error, and the next run goes on from there.
    """
    check_collection_name(collection)
    files = find_sources(path)
    total_bytes = sum(file.size_bytes for file in files)
    loader = _Loader(store, collection, embed, max_tokens)
    done_bytes = 0
    for file in files:
        source = source_prefix + file.source

        def advance(file_bytes: int, source: str = source, before: int = done_bytes) -> None:
            on_progress(LoadProgress(source, before + file_bytes, total_bytes, loader.report.chunks))

        loader.load_file(file, source, advance)
        advance(file.size_bytes)
        done_bytes += file.size_bytes
    return loader.report


class _Loader:
    def __init__(self, store: DocumentStore, collection: str, embed: EmbeddingConnection, max_tokens: int) -> None:
        self.report = LoadReport()
        self._store = store
        self._collection = collection
        self._embed = embed
        self._max_tokens = max_tokens
        self._first_use: dict[str, str] = {}  # id of a record → the place that has it
        self._known = self._find_collection()
        self._has_embedded = False

    def load_file(self, file: SourceFile, source: str, advance: Callable[[int], None]) -> None:
        self.report.sources += 1
        if file.kind is SourceKind.JSONL:
            self._load_records(file, source, advance)
            return
        try:
            drafts = drafts_of_file(file, source, model=self._embed.model, max_tokens=self._max_tokens)
            self._swap(source, drafts, lambda part: advance(int(part * file.size_bytes)))
        except InvalidInputError as error:
            self._refuse(source, None, error.message)

    def _swap(self, source: str, drafts: list[Draft], advance: Callable[[float], None]) -> None:
        where = {"source": source}
        stored = self._stored(where=where)
        gone = stored.keys() - {draft.id for draft in drafts}
        self.report.chunks += len(drafts)
        self.report.skipped += not drafts
        if not gone and all(draft.is_stored_as(stored.get(draft.id)) for draft in drafts):
            self.report.unchanged += len(drafts)
        elif drafts:
            self._add(self._documents(drafts, stored, advance), replace_where=where)
            self.report.deleted += len(gone)
        else:
            self.report.deleted += self._store.delete_documents(self._collection, where=where)

    def _load_records(self, file: SourceFile, source: str, advance: Callable[[int], None]) -> None:
        for batch in _batches(read_records(file), BATCH_DOCUMENTS):
            drafts: list[Draft] = []
            end_bytes = 0
            for record in batch:
                if isinstance(record, SourceError):
                    self._refuse(source, record.line, record.message)
                    continue
                end_bytes = record.end_bytes
                draft = draft_of_record(record, source, model=self._embed.model)
                first_use = self._first_use.setdefault(draft.id, f"{source}:{record.line}") if draft else ""
                if draft and first_use == f"{source}:{record.line}":
                    drafts.append(draft)
                elif draft and record.id:
                    self._refuse(source, record.line, f"id '{record.id}' was already used by {first_use}")
                else:
                    self.report.skipped += 1
            if drafts:
                self._store_records(source, drafts)
            advance(end_bytes)

    def _store_records(self, source: str, drafts: list[Draft]) -> None:
        stored = self._stored(ids=[draft.id for draft in drafts])
        changed = [draft for draft in drafts if not draft.is_stored_as(stored.get(draft.id))]
        self.report.chunks += len(drafts)
        self.report.unchanged += len(drafts) - len(changed)
        if changed:
            self._write_records(source, changed, stored)

    def _write_records(self, source: str, drafts: list[Draft], stored: _Stored) -> None:
        """All in one request; when it is refused, by halves, until only what is at fault is left out."""
        try:
            self._add(self._documents(drafts, stored, lambda part: None))
        except InvalidInputError as error:
            if len(drafts) == 1:
                self._refuse(source, drafts[0].line, error.message)
                return
            middle = len(drafts) // 2
            self._write_records(source, drafts[:middle], stored)
            self._write_records(source, drafts[middle:], stored)

    def _refuse(self, source: str, line: int | None, message: str) -> None:
        self.report.errors.append(SourceError(source, line, message))

    def _documents(
        self, drafts: list[Draft], stored: _Stored, advance: Callable[[float], None]
    ) -> list[dict[str, Any]]:
        """The drafts as on the wire, each with its own embedding, the stored one of the same words, or a new one."""
        texts = {draft.id: text_to_embed(draft.text, draft.metadata) for draft in drafts if draft.embedding is None}
        known = self._known_embeddings(set(texts.values()), stored)
        for batch in _batches(dict.fromkeys(text for text in texts.values() if text not in known), BATCH_DOCUMENTS):
            known |= zip(batch, self._embedded(batch), strict=True)
            advance(len(known) / len(texts))
        return [
            {
                "id": draft.id,
                "text": draft.text,
                "metadata": draft.metadata,
                "embedding": known[texts[draft.id]] if draft.embedding is None else draft.embedding,
            }
            for draft in drafts
        ]

    def _known_embeddings(self, texts: set[str], stored: _Stored) -> dict[str, Vector]:
        if self._recorded_model() != self._embed.model:
            return {}
        ids = [key for key, found in stored.items() if text_to_embed(found["text"], found["metadata"]) in texts]
        known: dict[str, Vector] = {}
        for batch in _batches(ids, BATCH_DOCUMENTS):
            for found in self._store.documents(self._collection, ids=batch, include=["embedding"]):
                known[text_to_embed(found["text"], found["metadata"])] = np.asarray(found["embedding"], np.float32)
        return known

    def _embedded(self, texts: list[str]) -> Vector:
        recorded = self._recorded_model()
        if recorded not in (None, self._embed.model):
            raise ConflictError(
                f"Collection '{self._collection}' was embedded with '{recorded}', not with '{self._embed.model}'",
                code="embedding_model_differs",
                stored=recorded,
                given=self._embed.model,
            )
        vectors = self._embed.embed(texts)
        self._has_embedded = True
        dimension = self._known["dimension"] if self._known else None
        if dimension not in (None, vectors.shape[1]):
            raise ConflictError(
                f"Collection '{self._collection}' holds embeddings of {dimension} dimensions, "
                f"'{self._embed.model}' makes {vectors.shape[1]}",
                code="embedding_dimension_differs",
                stored=dimension,
                given=vectors.shape[1],
            )
        return vectors

    def _stored(self, **selection: Any) -> _Stored:
        if self._known is None:
            return {}
        return {document["id"]: document for document in self._store.documents(self._collection, **selection)}

    def _add(self, documents: list[dict[str, Any]], *, replace_where: dict[str, Any] | None = None) -> None:
        if self._known is None:
            self._known = self._store.ensure_collection(self._collection, self._new_metadata())
        answer = self._store.add_documents(self._collection, documents, replace_where=replace_where)
        self.report.created += answer["created"]
        self.report.updated += answer["updated"]
        self.report.unchanged += answer["unchanged"]
        self.report.indexed &= answer["indexed"]

    def _new_metadata(self) -> Metadata:
        metadata = {"title_field": "title", "source_field": "source"}
        if self._has_embedded:  # else all embeddings came with their records, and only their maker knows the model
            metadata |= {"embedding_provider": self._embed.id, "embedding_model": self._embed.model}
        return metadata

    def _recorded_model(self) -> str | None:
        return self._known["metadata"].get("embedding_model") if self._known else None

    def _find_collection(self) -> dict[str, Any] | None:
        try:
            return self._store.collection(self._collection)
        except CollectionNotFoundError:
            return None


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
