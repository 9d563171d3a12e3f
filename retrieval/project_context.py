"""What is known of a topic, or at all, as one text for a language model, and its sources (seed 004)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from providers.base import SupportsMetadataFiltering
from retrieval.corpus import Corpus
from retrieval.drafts import FIRST_CHUNKS
from retrieval.excerpts import excerpt
from retrieval.notes import Notes
from retrieval.search import SearchEngine
from schemas.connections import CollectionInfo
from schemas.owners import OPEN
from schemas.searched import FusedResult, SearchRequest
from schemas.sessions import Note
from schemas.settings import RetrievalSettings

RULE, DOCUMENT, NOTE = "rule", "document", "note"
HEADINGS = {RULE: "Rules", DOCUMENT: "Documents", NOTE: "Notes"}
TOPIC_SOURCES = 10
OVERVIEW_NOTES = 10
OVERVIEW_TITLES = 20
"""Of each collection."""


@dataclass(frozen=True, slots=True)
class ContextSource:
    """Where a part of the context is from; `number` is its number in the text, `kind` one of the words above."""

    number: int
    kind: str
    collection: str
    chunk_id: str
    doc_id: str
    title: str


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """`text` is Markdown. Without a topic it is an overview."""

    topic: str | None
    text: str
    sources: list[ContextSource]


class ContextWriter:
    """Usable by several threads."""

    def __init__(self, search: SearchEngine, corpus: Corpus, notes: Notes, settings: RetrievalSettings) -> None:
        self._search = search
        self._corpus = corpus
        self._notes = notes
        self._kinds = {settings.rules_collection: RULE, settings.notes_collection: NOTE}
        self._notes_collection = settings.notes_collection

    def write(self, topic: str | None = None, *, owner: str = OPEN) -> ProjectContext:
        """Raises InvalidInputError, SearchFailedError and what the store raises."""
        return self._overview(owner) if topic is None else self._of_topic(topic, owner)

    def _of_topic(self, topic: str, owner: str) -> ProjectContext:
        found = self._search.search(SearchRequest(topic, limit=TOPIC_SOURCES, owner=owner)).results
        by_kind = {kind: [each for each in found if self._kind(each) == kind] for kind in HEADINGS}
        parts = [f"# {topic}"]
        sources: list[ContextSource] = []
        for kind, results in by_kind.items():
            if results:
                parts.append(f"## {HEADINGS[kind]}")
            for result in results:
                title = _title(result.metadata) or result.doc_id
                source = ContextSource(len(sources) + 1, kind, result.collection, result.chunk_id, result.doc_id, title)
                sources.append(source)
                parts.append(f"[{source.number}] {title} ({result.collection})\n\n{excerpt(result.content)}")
        if not sources:
            parts.append("Nothing is known of this topic.")
        return ProjectContext(topic, "\n\n".join(parts), sources)

    def _overview(self, owner: str) -> ProjectContext:
        collections = self._corpus.provider().collections()
        notes = self._notes.newest(OVERVIEW_NOTES, owner=owner)
        parts = ["# Overview", "## Collections"]
        sources: list[ContextSource] = []
        if not collections:
            parts.append("There are none yet.")
        for collection in collections:
            if collection.name == self._notes_collection:
                continue
            documents = list(self._documents(collection, len(sources) + 1))
            titles = "\n".join(f"- [{each.number}] {each.title}" for each in documents)
            head = f"### {collection.name} ({collection.count or 0} chunks)"
            parts.append(f"{head}\n\n{titles}" if titles else head)
            sources += documents
        if notes:
            parts.append("## Newest notes")
            for note in notes:
                source = ContextSource(
                    len(sources) + 1, NOTE, self._notes_collection, note.id, note.id, note.session_name
                )
                sources.append(source)
                parts.append(_noted(source, note))
        return ProjectContext(None, "\n\n".join(parts), sources)

    def _documents(self, collection: CollectionInfo, number: int) -> Iterator[ContextSource]:
        reads = self._corpus.able(SupportsMetadataFiltering)
        page = reads.documents(collection.name, FIRST_CHUNKS, limit=OVERVIEW_TITLES)
        kind = self._kinds.get(collection.name, DOCUMENT)
        for each in page.documents:
            told = each.metadata
            document_id = str(told.get("document_id", each.id))
            yield ContextSource(
                number, kind, collection.name, each.id, document_id, str(told.get("title") or document_id)
            )
            number += 1

    def _kind(self, result: FusedResult) -> str:
        return self._kinds.get(result.collection, DOCUMENT)


def _title(metadata: dict[str, Any]) -> str:
    told: Sequence[Any] = (metadata.get("section"), metadata.get("title"), metadata.get("session_name"))
    return next((str(each) for each in told if each), "")


def _noted(source: ContextSource, note: Note) -> str:
    return f"[{source.number}] {note.created_at[:10]}, {note.session_name}\n\n{excerpt(note.text)}"
