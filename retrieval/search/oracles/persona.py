"""Search in the notes of sessions: those nearest to the question, without notes that another one has replaced."""

from __future__ import annotations

from dataclasses import replace

from registry.embedding.queries import QueryEmbeddings
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import Question
from retrieval.search.oracles.semantic import SemanticOracle
from schemas.access.owners import EVERYTHING_SEEN, OPEN, Asker
from schemas.contracts.search import OracleAnswer
from schemas.where import EVERYTHING, Equals, Exists, Not, Or, Where, all_of

SUPERSEDED_BY = "superseded_by"
"""The metadata field of a replaced note with the id of the note that replaced it."""
OWNER = "owner"
"""The metadata field with a note's owner. Notes of the open service lack it."""
AUDIENCE = "audience"
"""The metadata field with the audience of a note of a shared session."""


def current_notes(asker: Asker) -> Where:
    """Return the filter of the notes that the asker sees and no other note has replaced."""
    return all_of(Not(Exists(SUPERSEDED_BY)), seen_notes(asker))


def notes_of(owner: str) -> Where:
    """Return the filter of one owner's notes."""
    return Not(Exists(OWNER)) if owner == OPEN else Equals(OWNER, owner)


def seen_notes(asker: Asker) -> Where:
    """Return `Asker.sees` as a filter of notes."""
    if asker.sees_all:
        return EVERYTHING
    own = notes_of(asker.owner)
    shared = Exists(AUDIENCE) if asker.reach == EVERYTHING_SEEN else Equals(AUDIENCE, asker.reach)
    return Or((own, shared))


class PersonaOracle(SemanticOracle):
    """Asks the collection of notes, whatever collections a question names."""

    name = "persona"

    def __init__(self, embeddings: QueryEmbeddings, notes_collection: str) -> None:
        super().__init__(embeddings)
        self.own_collections = (notes_collection,)

    def is_available(self, corpus: OpenCorpus) -> bool:
        return super().is_available(corpus) and any(each.count != 0 for each in corpus.existing(self.own_collections))

    def query(self, question: Question, limit: int) -> OracleAnswer:
        notes = tuple(question.corpus.existing(self.own_collections))
        # Filtered in the query, not afterwards: replaced notes must not take the place of current ones.
        where = all_of(question.where, current_notes(question.asker))
        return super().query(replace(question, collections=notes, where=where), limit)
