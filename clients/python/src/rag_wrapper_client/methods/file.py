"""Methods about uploaded files, their jobs, and watched folders."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rag_wrapper_client.errors import TimedOutError
from rag_wrapper_client.exchanges import Exchange, Wait, ask, at, change, get, given, read, repeatable, write
from rag_wrapper_client.forms import UploadedFile, form
from rag_wrapper_client.operations import listing, operation, streamed
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.streams import ByteDecoder, Opening
from rag_wrapper_client.wire.files import (
    CompareFilesAnswer,
    DeleteStoredDocumentAnswer,
    DocumentWithChunks,
    ForgetWatcherAnswer,
    Job,
    ListWatchersAnswer,
    StoredDocument,
    UploadDocumentsAnswer,
    Watcher,
    WatcherReport,
)

ENDED = ("done", "failed", "cancelled")
LONGEST_LOOK_SECONDS = 2.0


class FileMethods:
    @operation
    def upload(
        self,
        files: UploadedFile | Iterable[UploadedFile],
        *,
        collection: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        on_conflict: Literal["replace", "skip"] | None = None,
        shared: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Exchange[UploadDocumentsAnswer]:
        """Send files, which become documents in the background: see `wait_for_job`. A file is a path, or a pair of a
        name and its bytes or path; it is read while it is sent."""
        request = write(
            "POST",
            "/api/documents",
            idempotency_key=idempotency_key,
            collection=collection,
            tags=tags,
            metadata=None if metadata is None else json.dumps(metadata),
            on_conflict=on_conflict,
            shared=shared,
        )
        return ask(replace(request, body=form(files)))

    @operation
    def compare_files(
        self,
        files: Mapping[str, str],
        *,
        collection: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Exchange[CompareFilesAnswer]:
        """Ask which files, given as the SHA-256 of each by name, an upload with this metadata would store or change."""
        named = [{"name": name, "sha256": sha256} for name, sha256 in files.items()]
        body = given({"files": named, "collection": collection, "metadata": metadata})
        return ask(read("/api/documents/compare", body))

    @listing
    def stored_documents(
        self,
        *,
        collections: str | Sequence[str] | None = None,
        source: str | None = None,
        tag: str | None = None,
        kind: str | None = None,
        page_size: int = 1000,
    ) -> Listing[StoredDocument]:
        """Iterate over the documents of all text collections, however they came."""
        return paged(
            lambda cursor: get(
                "/api/documents",
                collections=collections,
                source=source,
                tag=tag,
                kind=kind,
                limit=page_size,
                cursor=cursor,
            ),
            "documents",
        )

    @operation
    def stored_document(self, document_id: str, *, collection: str | None = None) -> Exchange[StoredDocument]:
        """Describe a document."""
        return ask(get(at("/api/documents/{}", document_id), collection=collection))

    @operation
    def stored_document_with_chunks(
        self, document_id: str, *, collection: str | None = None
    ) -> Exchange[DocumentWithChunks]:
        """Describe a document, with its chunks in their order."""
        return ask(get(at("/api/documents/{}", document_id), collection=collection, chunks=True))

    @operation
    def delete_stored_document(
        self, document_id: str, *, collection: str | None = None
    ) -> Exchange[DeleteStoredDocumentAnswer]:
        """Delete a document with its chunks."""
        return ask(change("DELETE", at("/api/documents/{}", document_id), collection=collection))

    @streamed
    def original(self, document_id: str, *, collection: str | None = None) -> Opening[bytes]:
        """Iterate over the bytes of the file that a document was made of, where it was kept."""
        return Opening(
            get(at("/api/documents/{}/original", document_id), collection=collection), lambda _: ByteDecoder()
        )

    @listing
    def jobs(self, *, status: str | None = None, page_size: int = 1000) -> Listing[Job]:
        """Iterate over the jobs, the latest first."""
        return paged(lambda cursor: get("/api/jobs", status=status, limit=page_size, cursor=cursor), "jobs")

    @operation
    def job(self, job_id: str) -> Exchange[Job]:
        """Tell how far a job is."""
        return ask(get(at("/api/jobs/{}", job_id)))

    @operation
    def wait_for_job(self, job_id: str, *, timeout_seconds: float = 600.0, look_seconds: float = 0.1) -> Exchange[Job]:
        """Return a job once it has ended, well or not: see its `status` and that of its `files`. Looks are further
        apart the longer it takes. Raises TimedOutError (`job_not_ended`) after so many seconds of waiting."""
        return _ended(job_id, timeout_seconds, look_seconds)

    @operation
    def cancel_job(self, job_id: str) -> Exchange[Job]:
        """Cancel a job; what it has stored stays."""
        return ask(repeatable(change("DELETE", at("/api/jobs/{}", job_id))))

    @operation
    def watchers(self) -> Exchange[ListWatchersAnswer]:
        """List the watched folders."""
        return ask(get("/api/watchers"))

    @operation
    def watcher(self, name: str, *, owner: str | None = None) -> Exchange[Watcher]:
        """Tell what a watcher last reported."""
        return ask(get(at("/api/watchers/{}", name), owner=owner))

    @operation
    def report_watcher(self, name: str, report: WatcherReport) -> Exchange[Watcher]:
        """Say how a watched folder is."""
        return ask(repeatable(change("PUT", at("/api/watchers/{}", name), report)))

    @operation
    def forget_watcher(self, name: str, *, owner: str | None = None) -> Exchange[ForgetWatcherAnswer]:
        """Forget a watcher that has stopped."""
        return ask(change("DELETE", at("/api/watchers/{}", name), owner=owner))


def _ended(job_id: str, timeout_seconds: float, look_seconds: float) -> Exchange[Job]:
    waited = 0.0
    while True:
        job: Job = yield from ask(get(at("/api/jobs/{}", job_id)))
        if job["status"] in ENDED:
            return job
        if waited >= timeout_seconds:
            raise TimedOutError(f"The job is {job['status']} after {timeout_seconds:g} seconds", code="job_not_ended")
        seconds = min(LONGEST_LOOK_SECONDS, timeout_seconds - waited, max(look_seconds, waited / 10))
        yield Wait(seconds)
        waited += seconds
