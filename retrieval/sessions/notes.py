"""Notes of sessions: persona documents in a collection of their own, found as soon as they are noted.

A replaced note stays stored with the id of the note that replaced it, and the persona oracle leaves it out (contract
*search*).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from providers.base import SupportsMetadataFiltering, SupportsOrderBy
from retrieval.clock import utc_now
from retrieval.ingest.drafts import Draft
from retrieval.search.oracles.persona import OWNER, SUPERSEDED_BY, current_notes
from retrieval.sessions.sessions import Sessions
from retrieval.text_collections import TextCollections
from schemas.contracts.sessions import (
    MAX_NAME_CHARACTERS,
    MAX_NOTE_CHARACTERS,
    NOTE,
    SUMMARY,
    EndedSession,
    Note,
    NoteNotFoundError,
    NoteSupersededError,
    Session,
    checked_text,
)
from schemas.errors import AlreadyThereError, CollectionNotFoundError
from schemas.owners import OPEN
from schemas.records import Document, Metadata, OrderBy
from schemas.where import And, Equals, Where


class Notes:
    """Keeps notes, usable by several threads. Without a session id the newest open session is meant."""

    def __init__(
        self, texts: TextCollections, sessions: Sessions, collection: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._texts = texts
        self._sessions = sessions
        self._collection = collection
        self._clock = clock

    def start(self, name: str, *, owner: str) -> Session:
        """Start a session. Raises InvalidInputError when the name is blank or too long."""
        return self._sessions.start(checked_text("name", name, MAX_NAME_CHARACTERS), owner=owner)

    def note(self, text: str, session_id: str | None = None, supersedes: str | None = None, *, owner: str) -> Note:
        """Keep a text as a note, in place of the note `supersedes` where one is given.

        When several replace one note at the same time, one does, and the others are told which. A repetition after a
        lost answer returns the note that was kept. Raises InvalidInputError, SessionNotFoundError, SessionEndedError,
        NoSessionError, NoteNotFoundError, NoteSupersededError, EmbeddingFailureError and what the store raises; nothing
        is kept then.
        """
        text = checked_text("note", text, MAX_NOTE_CHARACTERS)
        session = self._sessions.open_session(session_id, owner=owner)
        if supersedes is None:
            return self._write(_new(text, session, NOTE), owner)
        replaced = self._found(supersedes, owner)
        if SUPERSEDED_BY not in replaced.metadata:
            try:
                return self._write(_new(text, session, NOTE, replaced.id), owner, replaced)
            except AlreadyThereError:
                replaced = self._found(supersedes, owner)
        successor = str(replaced.metadata[SUPERSEDED_BY])
        kept = self._found(successor, owner)
        if kept.text != text:
            raise NoteSupersededError(supersedes, successor)
        return _note(kept)

    def end(self, session_id: str | None = None, summary: str | None = None, *, owner: str) -> EndedSession:
        """End a session. Its notes stay, and the summary becomes a note. Raise what `note` raises."""
        session = self._sessions.open_session(session_id, owner=owner)
        summary_id = None
        if summary is not None and summary.strip():
            # The same id for each attempt: one that broke off before the session ended leaves no second summary.
            summary_id = str(uuid.uuid5(uuid.UUID(session.id), SUMMARY))
            text = checked_text("summary", summary, MAX_NOTE_CHARACTERS)
            self._write(replace(_new(text, session, SUMMARY), id=summary_id), owner)
        ended = self._sessions.end(session.id, owner=owner)
        return EndedSession(
            ended, self._count(And((Equals("session_id", session.id), Equals("kind", NOTE)))), summary_id
        )

    def newest(self, limit: int, *, owner: str) -> list[Note]:
        """Return the notes that no other note has replaced, newest first."""
        newest_first = (OrderBy("created_at", descending=True),)
        reads = self._texts.corpus.open().able(SupportsOrderBy)
        try:
            page = reads.ordered_documents(self._collection, current_notes(owner), order_by=newest_first, limit=limit)
        except CollectionNotFoundError:
            return []
        return [_note(each) for each in page.documents]

    def _write(self, note: Note, owner: str, replaced: Document | None = None) -> Note:
        """Store the note. Raises AlreadyThereError when another note has replaced `replaced` meanwhile."""
        note = replace(note, created_at=self._clock().isoformat(timespec="milliseconds"))
        writer = self._texts.writer(self._collection, self._texts.embedding())
        drafts = [Draft(note.id, note.text, _metadata(note, owner))]
        if replaced is not None:
            superseded = {**replaced.metadata, SUPERSEDED_BY: note.id}
            drafts.append(Draft(replaced.id, replaced.text, superseded, replaced.embedding))
        vectors = writer.vectors(drafts, {})
        # Written in one request: at no moment are both notes, or neither, found.
        writer.write(drafts, vectors, unless=None if replaced is None else Equals("supersedes", replaced.id))
        return note

    def _found(self, note_id: str, owner: str) -> Document:
        reads = self._texts.corpus.open().able(SupportsMetadataFiltering)
        try:
            found = reads.documents_by_id(self._collection, [note_id], with_embeddings=True)
        except CollectionNotFoundError:
            found = []
        if not found or found[0].metadata.get(OWNER, OPEN) != owner:
            raise NoteNotFoundError(note_id)
        return found[0]

    def _count(self, where: Where) -> int:
        try:
            return (
                self._texts.corpus.open()
                .able(SupportsMetadataFiltering)
                .documents(self._collection, where, limit=1)
                .total
            )
        except CollectionNotFoundError:
            return 0


def _new(text: str, session: Session, kind: str, supersedes: str | None = None) -> Note:
    return Note(str(uuid.uuid4()), text, session.id, session.name, "", kind, supersedes)


def _metadata(note: Note, owner: str) -> Metadata:
    told: Metadata = {
        "session_id": note.session_id,
        "session_name": note.session_name,
        "created_at": note.created_at,
        "kind": note.kind,
    }
    if owner != OPEN:
        told[OWNER] = owner
    return told if note.supersedes is None else {**told, "supersedes": note.supersedes}


def _note(stored: Document) -> Note:
    told = stored.metadata
    session_id, session_name, created_at, kind = (
        str(told.get(name, "")) for name in ("session_id", "session_name", "created_at", "kind")
    )
    return Note(stored.id, stored.text, session_id, session_name, created_at, kind, told.get("supersedes"))
