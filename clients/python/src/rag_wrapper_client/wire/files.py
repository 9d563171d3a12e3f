"""Answers about uploaded files, their jobs and watched folders.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class CompareFilesAnswer(TypedDict):
    collection: str
    max_file_bytes: int
    missing: list[str]
    changed: list[str]
    unchanged: int
    warnings: NotRequired[list[str]]


class DeleteStoredDocumentAnswer(TypedDict):
    status: Literal["deleted"]
    id: str
    collection: str
    chunks: int
    warnings: NotRequired[list[str]]


class DocumentWithChunks(TypedDict):
    id: str
    collection: str
    source: str
    name: str
    kind: str | None
    title: str
    tags: list[str]
    chunks: list[DocumentWithChunksChunk]
    pages: NotRequired[int]
    bytes: int | None
    created_at: str | None
    updated_at: str | None
    has_original: bool
    warnings: NotRequired[list[str]]


class DocumentWithChunksChunk(TypedDict):
    id: str
    text: str
    chunk_index: int
    section: NotRequired[str]
    page: NotRequired[int]
    last_page: NotRequired[int]
    sheet: NotRequired[str]
    slide: NotRequired[int]
    start_line: NotRequired[int]


class ForgetWatcherAnswer(TypedDict):
    status: Literal["deleted"]
    name: str
    warnings: NotRequired[list[str]]


class Job(TypedDict):
    id: str
    kind: Literal["ingest"]
    owner: str
    shared: bool
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    collection: str
    created_at: str
    finished_at: str | None
    files: list[JobFile]
    progress: JobProgress
    warnings: NotRequired[list[str]]


class JobFile(TypedDict):
    name: str
    status: Literal["queued", "reading", "embedding", "done", "unchanged", "failed"]
    document_id: NotRequired[str]
    chunks: NotRequired[int]
    pages: NotRequired[int]
    warnings: list[str]
    code: NotRequired[str]
    message: NotRequired[str]


class JobProgress(TypedDict):
    files: int
    files_done: int
    chunks: int
    chunks_done: int


class ListJobsAnswer(TypedDict):
    jobs: list[Job]
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class ListStoredDocumentsAnswer(TypedDict):
    documents: list[StoredDocument]
    total: int
    next_cursor: str | None
    warnings: NotRequired[list[str]]


class ListWatchersAnswer(TypedDict):
    watchers: list[Watcher]
    warnings: NotRequired[list[str]]


class StoredDocument(TypedDict):
    id: str
    collection: str
    source: str
    name: str
    kind: str | None
    title: str
    tags: list[str]
    chunks: int
    pages: NotRequired[int]
    bytes: int | None
    created_at: str | None
    updated_at: str | None
    has_original: bool
    warnings: NotRequired[list[str]]


class UploadDocumentsAnswer(TypedDict):
    job: UploadDocumentsAnswerJob
    files: list[UploadDocumentsAnswerFile]
    warnings: NotRequired[list[str]]


class UploadDocumentsAnswerFile(TypedDict):
    name: str
    status: Literal["queued", "refused"]
    code: NotRequired[str]
    message: NotRequired[str]


class UploadDocumentsAnswerJob(TypedDict):
    id: str
    status: Literal["queued"]


class Watcher(TypedDict):
    name: str
    owner: str
    shared: bool
    state: Literal["watching", "retrying", "stopped", "lost"]
    reported_at: str
    instance: str
    collection: str
    files: int
    stored: int
    failed: int
    failures: list[WatcherFailure]
    at: str | None
    next: str | None
    reason: str | None
    warnings: NotRequired[list[str]]


class WatcherFailure(TypedDict):
    path: str
    reason: str


class WatcherReport(TypedDict):
    instance: str
    state: Literal["watching", "retrying", "stopped"]
    collection: str
    files: NotRequired[int | None]
    stored: NotRequired[int | None]
    failed: NotRequired[int | None]
    failures: NotRequired[list[WatcherReportFailure] | None]
    at: NotRequired[str | None]
    next: NotRequired[str | None]
    reason: NotRequired[str | None]
    shared: NotRequired[bool | None]


class WatcherReportFailure(TypedDict):
    path: str
    reason: str
