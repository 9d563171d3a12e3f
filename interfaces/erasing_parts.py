"""Puts together what erases: the storage, and every place above it that holds something of documents or users."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from registry.connections import Connections
from registry.embedding.shared_files import VectorFiles
from registry.topics.conversations import Conversations
from registry.topics.topic import TopicByRule
from retrieval.bench.measuring import QualityParts
from retrieval.chat.history import ChatHistory
from retrieval.context.layer import ContextLayer
from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.erasing.erasure import Erasure, Place
from retrieval.erasing.pending import PendingErasures
from retrieval.jobs.uploads import Uploads
from retrieval.kept_files.kept_files import KeptFiles
from retrieval.search.answer_cache import AnswerCache
from retrieval.sessions.sessions import Sessions
from retrieval.watching.stored_reports import Watchers
from schemas.access.api_keys import KEY_OWNER, KeyNotFoundError
from schemas.access.callers import as_service
from schemas.access.owners import USER_OWNER
from schemas.errors import InvalidInputError
from schemas.storage.erasure import Target
from wrapper.access.authentication import Authentication
from wrapper.access.daily_use import DailyUse
from wrapper.access.stored_keys import StoredKeys
from wrapper.service import Service

LOCK_FILE, PENDING_FILE = "erasure.lock", "erasures-under-way"


@dataclass(frozen=True, slots=True)
class Erasing:
    """What erases, and who knows whom a request names."""

    erasure: Erasure
    keys: StoredKeys

    def owner_of(self, named: str) -> str:
        """Return the owner that is meant: by a user's name, or by the id of a key, which stands for all keys that came
        of the same one by rotation.

        Raises KeyNotFoundError, and InvalidInputError for the text of a key: that is a secret.
        """
        if named.startswith(USER_OWNER) and named != USER_OWNER:
            return named
        key_id = named.removeprefix(KEY_OWNER).removeprefix("rw_")
        if "_" in key_id:
            raise InvalidInputError(
                "user must be the id of a key and not the key itself", code="invalid_field", field="user"
            )
        if not key_id.isalnum():
            raise InvalidInputError(
                "user must be the id of a key, or user: and the name of a user", code="invalid_field", field="user"
            )
        try:
            return KEY_OWNER + self.keys.one(key_id).owner
        except KeyNotFoundError as error:
            error.details["field"] = "user"
            raise


def open_erasure(
    service: Service,
    authentication: Authentication,
    *,
    history: ChatHistory,
    conversations: Conversations | None,
    sessions: Sessions,
    uploads: Uploads,
    kept_files: KeptFiles,
    documents: StoredDocuments,
    originals: Originals,
    watchers: Watchers,
    answers: AnswerCache,
    question_vectors: VectorFiles,
    context: ContextLayer,
    connections: Connections,
    daily_use: DailyUse,
    quality: QualityParts,
) -> Erasing:
    """Return what erases in this service."""
    data_dir = service.settings.data_dir
    # There are topics of earlier starts, too, when none are kept by now.
    topics = conversations or Conversations(service.catalog, TopicByRule)
    places = [
        Place("originals", "removed", originals.erase),
        Place("jobs and uploads", "removed", uploads.erase),
        Place("kept files", "removed, those that an erased document was made of as a whole", kept_files.erase),
        Place("conversations", "removed, those that quote an erased document as a whole", history.erase),
        Place("topics", "removed", topics.erase),
        Place("sessions", "removed; their notes are among the documents", sessions.erase, adds_documents=True),
        Place("watchers", "left out of the reports", watchers.erase),
        Place("judgements", "removed", quality.judgements.erase),
        Place("measurements", "removed", quality.benches.erase),
        Place("kept answers", "all removed", lambda _: answers.clear()),
        Place("embeddings of questions", "all removed", lambda _: question_vectors.clear()),
        Place(
            "metrics of searches",
            "all questions left out",
            lambda target: context.forget_questions(target.owner),
            fills_late=True,
        ),
        Place("connections", "removed", lambda target: connections.erase_of(target.owner) if target.owner else 0),
        Place(
            "counts of a day",
            "removed",
            lambda target: daily_use.forget(target.owner) if target.owner else 0,
            fills_late=True,
        ),
    ]

    def holders(target: Target, files: Set[Path]) -> dict[Path, str]:
        return uploads.holders(target, files) | kept_files.holders(target, files) | as_service(documents.holders)(files)

    erasure = Erasure(
        service.erasure(),
        PendingErasures(data_dir / PENDING_FILE),
        places,
        named=uploads.named,
        holders=holders,
        lock_file=data_dir / LOCK_FILE,
    )
    return Erasing(erasure, authentication.stored)
