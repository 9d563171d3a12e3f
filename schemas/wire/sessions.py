"""Answers of the tools for sessions, notes and project context as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from schemas.contracts.project_context import ProjectContext
from schemas.contracts.sessions import EndedSession, Note, Session
from schemas.wire.search import collections_receipt

Json = dict[str, Any]


def project_context(context: ProjectContext) -> Json:
    return {
        "topic": context.topic,
        "context": context.text,
        "sources": [asdict(source) for source in context.sources],
        "receipt": collections_receipt(context.receipt),
    }


def started_session(session: Session) -> Json:
    return {
        "session_id": session.id,
        "name": session.name,
        "started_at": session.started_at,
        "shared": session.of.is_shared,
    }


def kept_note(note: Note) -> Json:
    return {
        "note_id": note.id,
        "session_id": note.session_id,
        "created_at": note.created_at,
        "supersedes": note.supersedes,
    }


def ended_session(ended: EndedSession) -> Json:
    return {
        "session_id": ended.session.id,
        "name": ended.session.name,
        "started_at": ended.session.started_at,
        "ended_at": ended.session.ended_at,
        "notes": ended.notes,
        "summary_id": ended.summary_id,
    }
