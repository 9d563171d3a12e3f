"""Writes the project context: one text about a topic, or an overview, for a language model and with its sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from providers.base import SupportsMetadataFiltering
from retrieval.ingest.drafts import FIRST_CHUNKS
from retrieval.quoting import QUOTES_ARE_DATA, excerpt, one_line, quoted
from retrieval.search.corpus import CollectionChoice, OpenCorpus
from retrieval.search.engine import SearchEngine
from retrieval.sessions.notes import Notes
from schemas.access.owners import Asker
from schemas.connections import CollectionInfo
from schemas.contracts.project_context import DOCUMENT, NOTE, RULE, ContextSource, ProjectContext
from schemas.contracts.search import SearchRequest
from schemas.errors import InvalidInputError
from schemas.plurals import counted
from schemas.settings import RetrievalSettings
from schemas.where import EVERYTHING, Where

HEADINGS = {RULE: "Rules", DOCUMENT: "Documents", NOTE: "Notes"}
TOPIC_SOURCES = 10
OVERVIEW_COLLECTIONS = 20
OVERVIEW_NOTES = 10
OVERVIEW_TITLES = 20
"""The most titles of each collection that the overview lists."""


class ContextWriter:
    """Writes project contexts, usable by several threads."""

    def __init__(
        self, search: SearchEngine, choice: CollectionChoice, notes: Notes, settings: RetrievalSettings
    ) -> None:
        self._search = search
        self._choice = choice
        self._notes = notes
        self._kinds = {settings.rules_collection: RULE, settings.notes_collection: NOTE}
        self._notes_collection = settings.notes_collection

    def write(
        self,
        topic: str | None = None,
        collections: tuple[str, ...] | None = None,
        *,
        where: Where = EVERYTHING,
        asker: Asker,
    ) -> ProjectContext:
        """Return the context of a topic, an overview for None.

        `collections` are what `CollectionChoice.choose` takes. Raises InvalidInputError for a filter of an overview,
        and what `SearchEngine.search` and the store raise.
        """
        if topic is not None:
            return self._of_topic(
                SearchRequest(topic, limit=TOPIC_SOURCES, collections=collections, where=where, asker=asker)
            )
        if where != EVERYTHING:
            raise InvalidInputError("where goes with a topic: an overview shows everything", field="where")
        return self._overview(collections, asker)

    def _of_topic(self, request: SearchRequest) -> ProjectContext:
        topic, answer = request.query, self._search.search(request)
        found = answer.results
        by_kind = {
            kind: [each for each in found if self._kinds.get(each.collection, DOCUMENT) == kind] for kind in HEADINGS
        }
        parts = [f"# {one_line(topic)}", *([QUOTES_ARE_DATA] if found else [])]
        sources: list[ContextSource] = []
        for kind, results in by_kind.items():
            if results:
                parts.append(f"## {HEADINGS[kind]}")
            for result in results:
                title, place = one_line(_title(result.metadata) or result.doc_id), result.collection
                sources.append(ContextSource(len(sources) + 1, kind, place, result.chunk_id, result.doc_id, title))
                parts.append(f"[{len(sources)}] {title} ({place})\n\n{quoted(excerpt(result.content))}")
        if not sources:
            parts.append("Nothing is known of this topic.")
        return ProjectContext(topic, "\n\n".join(parts), sources, answer.receipt.collections)

    def _overview(self, names: tuple[str, ...] | None, asker: Asker) -> ProjectContext:
        chosen = self._choice.choose(names)
        shown, further = chosen.asked[:OVERVIEW_COLLECTIONS], len(chosen.asked[OVERVIEW_COLLECTIONS:])
        notes = self._notes.newest(OVERVIEW_NOTES, asker=asker)
        parts = ["# Overview", "## Collections"]
        sources: list[ContextSource] = []
        if not shown:
            parts.append("There are none yet.")
        for collection in shown:
            documents = list(self._documents(chosen.corpus, collection, len(sources) + 1))
            titles = "\n".join(f"- [{each.number}] {each.title}" for each in documents)
            head = f"### {collection.name} ({collection.count or 0} chunks)"
            parts.append(f"{head}\n\n{titles}" if titles else head)
            sources += documents
        if further:
            parts.append(f"And {counted(further, 'further collection')}.")
        if notes:
            parts += ["## Newest notes", QUOTES_ARE_DATA]
            for note in notes:
                place, title = self._notes_collection, note.session_name
                sources.append(ContextSource(len(sources) + 1, NOTE, place, note.id, note.id, title))
                head = f"[{len(sources)}] {note.created_at[:10]}, {one_line(title)}"
                parts.append(f"{head}\n\n{quoted(excerpt(note.text))}")
        return ProjectContext(None, "\n\n".join(parts), sources, chosen.receipt)

    def _documents(self, corpus: OpenCorpus, collection: CollectionInfo, first: int) -> Iterator[ContextSource]:
        reads = corpus.able(SupportsMetadataFiltering)
        page = reads.documents(collection.name, FIRST_CHUNKS, limit=OVERVIEW_TITLES)
        kind = self._kinds.get(collection.name, DOCUMENT)
        for number, each in enumerate(page.documents, start=first):
            document_id = str(each.metadata.get("document_id", each.id))
            title = one_line(str(each.metadata.get("title") or document_id))
            yield ContextSource(number, kind, collection.name, each.id, document_id, title)


def _title(metadata: dict[str, Any]) -> str:
    told: Sequence[Any] = (metadata.get("section"), metadata.get("title"), metadata.get("session_name"))
    return next((str(each) for each in told if each), "")
