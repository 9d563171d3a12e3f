"""Sessions and their notes: what was learned while working, kept for later questions (contract *search*, "Tool
Definitions")."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.access.owners import UNNAMED, Ownership
from schemas.errors import ConflictError, InvalidInputError, NotFoundError

NOTE, SUMMARY = "note", "summary"
MAX_NAME_CHARACTERS = 200
MAX_NOTE_CHARACTERS = 20_000


class SessionNotFoundError(NotFoundError):
    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session '{session_id}'", session=session_id)


class NoSessionError(ConflictError):
    """The call names no session, and none is open."""

    code = "no_open_session"

    def __init__(self) -> None:
        super().__init__("No session is open: start one with session_start")


class SessionEndedError(ConflictError):
    code = "session_ended"

    def __init__(self, session_id: str, ended_at: str) -> None:
        super().__init__(f"Session '{session_id}' ended at {ended_at}", session=session_id, ended_at=ended_at)


class NoteNotFoundError(NotFoundError):
    code = "note_not_found"

    def __init__(self, note_id: str) -> None:
        super().__init__(f"There is no note '{note_id}'", note=note_id)


class NoteSupersededError(ConflictError):
    code = "note_superseded"

    def __init__(self, note_id: str, superseded_by: str) -> None:
        sentence = f"Note '{note_id}' was superseded by note '{superseded_by}' already"
        super().__init__(sentence, note=note_id, superseded_by=superseded_by)


@dataclass(frozen=True, slots=True)
class Session:
    """A session. Times are ISO 8601 in UTC; `ended_at` is None while notes can be added."""

    id: str
    name: str
    started_at: str
    ended_at: str | None = None
    of: Ownership = UNNAMED


@dataclass(frozen=True, slots=True)
class Note:
    """A text noted in a session; `kind` is one of the words above, `supersedes` the id of the note it replaces."""

    id: str
    text: str
    session_id: str
    session_name: str
    created_at: str
    kind: str = NOTE
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class EndedSession:
    """An ended session; `notes` counts all its notes, superseded ones too; `summary_id` is its summary's note."""

    session: Session
    notes: int
    summary_id: str | None


def checked_text(field: str, text: str, most: int) -> str:
    """Return the stripped text. Raises InvalidInputError naming the field when it is blank or too long."""
    stripped = text.strip()
    if not stripped:
        raise InvalidInputError(f"{field} must not be blank", code="invalid_field", field=field)
    if len(stripped) > most:
        sentence = f"{field} has {len(stripped)} characters, at most {most} are allowed"
        raise InvalidInputError(sentence, code="invalid_field", field=field, limit=most)
    return stripped
