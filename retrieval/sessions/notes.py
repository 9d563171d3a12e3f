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
from retrieval.search.oracles.semantic import AUDIENCE, OWNER, SUPERSEDED_BY, current_notes
from retrieval.sessions.sessions import Sessions
from retrieval.text_collections import TextCollections
from schemas.access.callers import SERVICE, acting_as, acting_still
from schemas.access.owners import NOBODY, OPEN, Asker, Ownership
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
from schemas.records import Document, Metadata, OrderBy
from schemas.storage.erasure_count import storing_since
from schemas.where import And, Equals, Exists, Where


class Notes:
    """Keeps notes, usable by several threads. Without a session id the newest open session is meant."""

    def __init__(
        self, texts: TextCollections, sessions: Sessions, collection: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._texts = texts
        self._sessions = sessions
        self._collection = collection
        self._clock = clock

    def start(self, name: str, *, asker: Asker, shared: bool = False) -> Session:
        """Start a session, whose notes are `shared` as it is. Raises InvalidInputError when the name is blank or too
        long."""
        return self._sessions.start(checked_text("name", name, MAX_NAME_CHARACTERS), asker=asker, shared=shared)

    def note(self, text: str, session_id: str | None = None, supersedes: str | None = None, *, asker: Asker) -> Note:
        """Keep a text as a note, in place of the note `supersedes` where one is given.

        When several replace one note at the same time, one does, and the others are told which. A repetition after a
        lost answer returns the note that was kept. A note belongs to its session's owner, one that replaces somebody
        else's note to the latter's. Raises InvalidInputError, SessionNotFoundError, OwnedByAnotherError,
        SessionEndedError, NoSessionError, NoteNotFoundError, NoteSupersededError, EmbeddingFailureError,
        ErasedMeanwhileError and what the store raises; nothing is kept then.
        """
        began_at = self._sessions.erasures()
        text = checked_text("note", text, MAX_NOTE_CHARACTERS)
        session = self._sessions.open_session(session_id, asker=asker)
        if supersedes is None:
            return self._write(_new(text, session, NOTE), _of_note(session, asker), began_at)
        replaced = self._found(supersedes, asker)
        if SUPERSEDED_BY not in replaced.metadata:
            of = _ownership(replaced)
            try:
                mine = _of_note(session, asker)
                of = mine if mine.owner == of.owner else of
                return self._write(_new(text, session, NOTE, replaced.id), of, began_at, replaced)
            except AlreadyThereError:
                replaced = self._found(supersedes, asker)
        successor = str(replaced.metadata[SUPERSEDED_BY])
        kept = self._found(successor, asker)
        if kept.text != text:
            raise NoteSupersededError(supersedes, successor)
        return _note(kept)

    def end(self, session_id: str | None = None, summary: str | None = None, *, asker: Asker) -> EndedSession:
        """End a session. Its notes stay, and the summary becomes a note. Raise what `note` raises."""
        began_at = self._sessions.erasures()
        session = self._sessions.open_session(session_id, asker=asker)
        summary_id = None
        if summary is not None and summary.strip():
            # The same id for each attempt: one that broke off before the session ended leaves no second summary.
            summary_id = str(uuid.uuid5(uuid.UUID(session.id), SUMMARY))
            text = checked_text("summary", summary, MAX_NOTE_CHARACTERS)
            self._write(replace(_new(text, session, SUMMARY), id=summary_id), _of_note(session, asker), began_at)
        ended = self._sessions.end(session.id, asker=asker)
        return EndedSession(
            ended, self._count(And((Equals("session_id", session.id), Equals("kind", NOTE)))), summary_id
        )

    def newest(self, limit: int, *, asker: Asker) -> list[Note]:
        """Return the notes that the asker sees and no other note has replaced, newest first."""
        newest_first = (OrderBy("created_at", descending=True),)
        reads = self._texts.corpus.open().able(SupportsOrderBy)
        try:
            page = reads.ordered_documents(self._collection, current_notes(asker), order_by=newest_first, limit=limit)
        except CollectionNotFoundError:
            return []
        return [_note(each) for each in page.documents]

    def _write(self, note: Note, of: Ownership, began_at: int, replaced: Document | None = None) -> Note:
        """Store the note. Raises AlreadyThereError when another note has replaced `replaced` meanwhile,
        ErasedMeanwhileError when the count of erasures is not `began_at` any more, and AccessError when the asker may
        not write any more.

        The service itself writes: what may be written was checked here, and nobody else may write to this collection.
        """
        note = replace(note, created_at=self._clock().isoformat(timespec="milliseconds"))
        writer = self._texts.writer(self._collection)
        drafts = [Draft(note.id, note.text, _metadata(note, of))]
        if replaced is not None:
            superseded = {**replaced.metadata, SUPERSEDED_BY: note.id}
            drafts.append(Draft(replaced.id, replaced.text, superseded))
        stored = {} if replaced is None else {replaced.id: replaced}

        def store() -> None:
            vectors = writer.vectors(drafts, stored)
            with acting_still(), acting_as(SERVICE), storing_since(began_at):
                # Written in one request: at no moment are both notes, or neither, found.
                writer.write(drafts, vectors, unless=None if replaced is None else Equals("supersedes", replaced.id))

        writer.following(store)
        return note

    def _found(self, note_id: str, asker: Asker) -> Document:
        """Return a note for the asker to replace. Raises NoteNotFoundError, and OwnedByAnotherError."""
        reads = self._texts.corpus.open().able(SupportsMetadataFiltering)
        try:
            found = reads.documents_by_id(self._collection, [note_id])
        except CollectionNotFoundError:
            found = []
        if not found or not asker.sees(_ownership(found[0])):
            raise NoteNotFoundError(note_id)
        asker.check_owns(_ownership(found[0]), f"Note '{note_id}'")
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


def notes_among_all(owner: str) -> Where:
    """Return the filter of one owner's notes among the documents of any collection."""
    return And((Equals(OWNER, owner), *(Exists(name) for name in ("session_id", "session_name", "kind"))))


def shared_among_all(owner: str) -> Where:
    """Return the filter of those notes of one owner that others may have read."""
    return And((notes_among_all(owner), Exists(AUDIENCE)))


def _new(text: str, session: Session, kind: str, supersedes: str | None = None) -> Note:
    return Note(str(uuid.uuid4()), text, session.id, session.name, "", kind, supersedes)


def _of_note(session: Session, asker: Asker) -> Ownership:
    """Return the ownership of a note of a session: a shared one is for those who see what its writer sees now."""
    return replace(session.of, audience=asker.reach) if session.of.is_shared else session.of


def _ownership(stored: Document) -> Ownership:
    return Ownership(str(stored.metadata.get(OWNER, OPEN)), str(stored.metadata.get(AUDIENCE, NOBODY)))


def _metadata(note: Note, of: Ownership) -> Metadata:
    told: Metadata = {
        "session_id": note.session_id,
        "session_name": note.session_name,
        "created_at": note.created_at,
        "kind": note.kind,
    }
    if of.owner != OPEN:
        told[OWNER] = of.owner
    if of.is_shared:
        told[AUDIENCE] = of.audience
    return told if note.supersedes is None else {**told, "supersedes": note.supersedes}


def _note(stored: Document) -> Note:
    told = stored.metadata
    session_id, session_name, created_at, kind = (
        str(told.get(name, "")) for name in ("session_id", "session_name", "created_at", "kind")
    )
    return Note(stored.id, stored.text, session_id, session_name, created_at, kind, told.get("supersedes"))
