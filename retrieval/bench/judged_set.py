"""Judgements as a query set: the questions about a collection, and the documents that were judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval.bench.judgements import Judgements
from retrieval.bench.query_set import Query
from retrieval.documents.stored_documents import StoredDocuments
from schemas.access.owners import Asker
from schemas.contracts.judgements import NothingJudgedError
from schemas.errors import NotFoundError
from schemas.storage.joined_text import joined_text


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    id: str
    title: str
    text: str


def judged_set(
    judgements: Judgements, documents: StoredDocuments, collection: str, *, asker: Asker
) -> tuple[Sequence[Query], Iterator[JudgedDocument]]:
    """Return the asker's judged questions about a collection, and the judged documents that are still there.

    Raises NothingJudgedError.
    """
    questions = judgements.questions(collection, asker=asker)
    if not questions:
        raise NothingJudgedError(collection)
    ids = dict.fromkeys(document_id for question in questions for document_id in question.judgements)
    return questions, _documents(documents, collection, ids)


def _documents(documents: StoredDocuments, collection: str, ids: dict[str, None]) -> Iterator[JudgedDocument]:
    for each in ids:
        try:
            known, chunks = documents.with_chunks(each, collection)
        except NotFoundError:
            continue
        yield JudgedDocument(each, known.title, joined_text([chunk.text for chunk in chunks], range(len(chunks))))
