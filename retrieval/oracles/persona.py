"""By what was learned in sessions: the notes nearest to the question, those that another note replaced left out."""

from __future__ import annotations

from dataclasses import replace

from providers.base import Filter
from registry.query_embeddings import QueryEmbeddings
from retrieval.corpus import OpenCorpus
from retrieval.filters import narrowed
from retrieval.oracles.base import Question
from retrieval.oracles.semantic import SemanticOracle
from schemas.owners import OPEN
from schemas.searched import OracleAnswer

SUPERSEDED_BY = "superseded_by"
"""The metadata field of a note that names the note which replaced it."""
OWNER = "owner"
"""The metadata field of a note that names its owner; the open service's notes have none."""


def of_owner(owner: str) -> Filter:
    """The notes of one owner."""
    return {OWNER: {"$exists": False} if owner == OPEN else owner}


class PersonaOracle(SemanticOracle):
    """Asks the notes, whatever collections a question names."""

    name = "persona"

    def __init__(
        self, embeddings: QueryEmbeddings, notes_collection: str, embedding_connection: str = "default"
    ) -> None:
        super().__init__(embeddings, embedding_connection)
        self.own_collections = (notes_collection,)

    def is_available(self, corpus: OpenCorpus) -> bool:
        return super().is_available(corpus) and any(each.count != 0 for each in corpus.existing(self.own_collections))

    def query(self, question: Question, limit: int) -> OracleAnswer:
        notes = tuple(question.corpus.existing(self.own_collections))
        # In the query and not after it: replaced notes take nobody's place.
        current = narrowed(question.where, {SUPERSEDED_BY: {"$exists": False}, **of_owner(question.owner)})
        return super().query(replace(question, collections=notes, where=current), limit)
