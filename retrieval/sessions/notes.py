"""Sessions, which are in the catalogue's database, and their notes: persona documents in a collection of their own,
found as soon as they are noted.

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
from retrieval.text_collections import TextCollections
from schemas.access.callers import SERVICE, acting_as, acting_still
from schemas.access.owners import AUDIENCE_COLUMN, NOBODY, OPEN, Asker, Ownership
from schemas.contracts.sessions import (
    MAX_NAME_CHARACTERS,
    MAX_NOTE_CHARACTERS,
    NOTE,
    SUMMARY,
    EndedSession,
    NoSessionError,
    Note,
    NoteNotFoundError,
    NoteSupersededError,
    Session,
    SessionEndedError,
    SessionNotFoundError,
    checked_text,
)
from schemas.errors import AlreadyThereError, CollectionNotFoundError
from schemas.records import Document, Metadata, OrderBy
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import storing_since
from schemas.storage.small_tables import Part, Table, having
from schemas.where import And, Equals, Exists, Where

STEPS = (
    (
        """CREATE TABLE note_sessions (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, name {text} NOT NULL,
            started_at VARCHAR(40) NOT NULL, ended_at VARCHAR(40)
        )""",
        "CREATE UNIQUE INDEX note_sessions_in_order ON note_sessions (number)",
    ),
    ("ALTER TABLE note_sessions ADD COLUMN owner VARCHAR(200) NOT NULL DEFAULT ''",),
    (f"ALTER TABLE note_sessions ADD COLUMN {AUDIENCE_COLUMN}",),
)


def _session(id: str, name: str, started_at: str, ended_at: str | None, owner: str, audience: str) -> Session:
    return Session(id, name, started_at, ended_at, Ownership(owner, audience))


SESSIONS = Table("note_sessions", _session)


class Notes(Part):
    """Keeps sessions and their notes: sessions for ever, because notes name them. Only its owner adds to one, whoever
    it is shared with. Without a session id the asker's newest open session is meant."""

    def __init__(
        self, texts: TextCollections, database: Database, collection: str, now: Callable[[], datetime] = utc_now
    ) -> None:
        self._texts = texts
        self._collection = collection
        self._now = now
        place = Place("sessions", "removed; their notes are among the documents", self.erase, adds_documents=True)
        super().__init__(database, "sessions", STEPS, place)

    def start(self, name: str, *, asker: Asker, shared: bool = False) -> Session:
        """Start a session, whose notes are `shared` as it is. Raises InvalidInputError when the name is blank or too
        long."""
        name = checked_text("name", name, MAX_NAME_CHARACTERS)
        session = Session(str(uuid.uuid4()), name, self._time(), of=asker.made(shared=shared))
        self._database.commit(
            lambda transaction: SESSIONS.insert(
                transaction,
                id=session.id,
                number=SESSIONS.next_number(transaction),
                name=name,
                started_at=session.started_at,
                owner=session.of.owner,
                audience=session.of.audience,
            )
        )
        return session

    def note(self, text: str, session_id: str | None = None, supersedes: str | None = None, *, asker: Asker) -> Note:
        """Keep a text as a note, in place of the note `supersedes` where one is given.

        When several replace one note at the same time, one does, and the others are told which. A repetition after a
        lost answer returns the note that was kept. A note belongs to its session's owner, one that replaces somebody
        else's note to the latter's. Raises InvalidInputError, SessionNotFoundError, OwnedByAnotherError,
        SessionEndedError, NoSessionError, NoteNotFoundError, NoteSupersededError, EmbeddingFailureError,
        ErasedMeanwhileError and what the store raises; nothing is kept then.
        """
        began_at = self.erasures()
        text = checked_text("note", text, MAX_NOTE_CHARACTERS)
        session = self.open_session(session_id, asker)
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
        began_at = self.erasures()
        session = self.open_session(session_id, asker)
        summary_id = None
        if summary is not None and summary.strip():
            # The same id for each attempt: one that broke off before the session ended leaves no second summary.
            summary_id = str(uuid.uuid5(uuid.UUID(session.id), SUMMARY))
            text = checked_text("summary", summary, MAX_NOTE_CHARACTERS)
            self._write(replace(_new(text, session, SUMMARY), id=summary_id), _of_note(session, asker), began_at)
        ended_at = self._time()

        def operation(transaction: Transaction) -> Session:
            ended = _open(transaction, session.id, asker)
            SESSIONS.update(transaction, having(id=session.id), ended_at=ended_at)
            return replace(ended, ended_at=ended_at)

        ended = self._database.freely.commit(operation)
        return EndedSession(ended, self._count_notes(session), summary_id)

    def newest(self, limit: int, *, asker: Asker) -> list[Note]:
        """Return the notes that the asker sees and no other note has replaced, newest first."""
        newest_first = (OrderBy("created_at", descending=True),)
        reads = self._texts.corpus.open().able(SupportsOrderBy)
        try:
            page = reads.ordered_documents(self._collection, current_notes(asker), order_by=newest_first, limit=limit)
        except CollectionNotFoundError:
            return []
        return [_note(each) for each in page.documents]

    def erase(self, target: Target) -> int:
        """Forget the sessions of an erased user, and return their number. Their notes are documents, and those that are
        being made are not stored."""
        return self._erase(lambda transaction: SESSIONS.remove(transaction, having(owner=target.owner)))

    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def open_session(self, session_id: str | None, asker: Asker) -> Session:
        """Return the session of that id for the asker to change.

        Raises SessionNotFoundError when they see none of that id, OwnedByAnotherError when they only see it,
        SessionEndedError when it has ended, and NoSessionError when no session is open.
        """
        with self._database.read() as transaction:
            if session_id is not None:
                return _open(transaction, session_id, asker)
            newest = SESSIONS.first(transaction, having(owner=asker.owner, ended_at=None))
        if newest is None:
            raise NoSessionError
        return newest

    def _write(self, note: Note, of: Ownership, began_at: int, replaced: Document | None = None) -> Note:
        """Store the note. Raises AlreadyThereError when another note has replaced `replaced` meanwhile,
        ErasedMeanwhileError when the count of erasures is not `began_at` any more, and AccessError when the asker may
        not write any more.

        The service itself writes: what may be written was checked here, and nobody else may write to this collection.
        """
        note = replace(note, created_at=self._time())
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

    def _count_notes(self, session: Session) -> int:
        notes = And((Equals("session_id", session.id), Equals("kind", NOTE)))
        reads = self._texts.corpus.open().able(SupportsMetadataFiltering)
        try:
            return reads.documents(self._collection, notes, limit=1).total
        except CollectionNotFoundError:
            return 0


def _open(transaction: Transaction, session_id: str, asker: Asker) -> Session:
    session = SESSIONS.first(transaction, having(id=session_id))
    if session is None or not asker.sees(session.of):
        raise SessionNotFoundError(session_id)
    asker.check_owns(session.of, f"Session '{session_id}'")
    if session.ended_at is not None:
        raise SessionEndedError(session_id, session.ended_at)
    return session


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
