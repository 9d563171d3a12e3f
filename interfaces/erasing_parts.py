"""Puts together what erases: the storage, and every place above it that holds something of documents or users."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from registry.embedding.shared_files import VectorFiles
from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.erasing.erasure import Erasure
from retrieval.erasing.pending import PendingErasures
from retrieval.jobs.uploads import Uploads
from retrieval.kept_files.kept_files import KeptFiles
from schemas.access.api_keys import KEY_OWNER, KeyNotFoundError
from schemas.access.callers import as_service
from schemas.access.owners import USER_OWNER
from schemas.errors import InvalidInputError
from schemas.shared_database import Place
from schemas.storage.erasure import Target
from wrapper.access.authentication import Authentication
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
    uploads: Uploads,
    kept_files: KeptFiles,
    documents: StoredDocuments,
    originals: Originals,
    question_vectors: VectorFiles,
) -> Erasing:
    """Return what erases in this service: the places of all parts of its catalogue, opened before, and these."""
    data_dir = service.settings.data_dir
    places = [
        *service.catalog.places,
        Place("originals", "removed", originals.erase),
        Place("jobs and uploads", "removed", uploads.erase),
        Place("kept files", "removed, those that an erased document was made of as a whole", kept_files.erase),
        Place("embeddings of questions", "all removed", lambda _: question_vectors.clear()),
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
