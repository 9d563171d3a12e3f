"""Puts together what takes uploads in: the spool, the jobs, and the thread that works on them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from retrieval.documents.originals import Originals
from retrieval.documents.stored_documents import StoredDocuments
from retrieval.jobs.background_helper import BackgroundHelper
from retrieval.jobs.ingesting import JobWork
from retrieval.jobs.runner import JobRunner
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import Limits, StoredJobs
from retrieval.jobs.uploads import Uploads
from retrieval.reading import DocumentReader, ReadingLimits
from retrieval.text_collections import TextCollections
from schemas.records import Vector
from schemas.settings import RetrievalSettings
from wrapper.service import Service

NICE = 10
"""The niceness of the process that parses files of jobs."""


@dataclass(frozen=True, slots=True)
class JobParts:
    """The parts that take uploads in."""

    jobs: StoredJobs
    uploads: Uploads
    runner: JobRunner


def open_jobs(
    service: Service,
    connections: Connections,
    texts: TextCollections,
    documents: StoredDocuments,
    originals: Originals,
    settings: RetrievalSettings,
) -> JobParts:
    """Return the parts of a service; nothing runs until the runner is started."""
    data_dir = service.settings.data_dir
    spool, stopping = Spool(data_dir), threading.Event()
    jobs = StoredJobs(service.catalog, spool.home, Limits(settings.jobs_waiting, settings.upload_spool_mb << 20))
    reader, background = DocumentReader(ReadingLimits.of(settings), nice=NICE), BackgroundHelper(data_dir)
    is_local = connections.address(connections.find("default")) is None

    def tidy() -> None:
        jobs.forget_ended(settings.jobs_days)
        documents.sweep_originals()

    work = JobWork(
        *(jobs, spool, texts, originals, reader, settings),
        embed=background.embed if is_local else _asked_directly,
        split=background.split,
        stopping=stopping,
    )
    runner = JobRunner(*(jobs, spool, work), reader=reader, background=background, stopping=stopping, tidy=tidy)
    uploads = Uploads(jobs, spool, max_file_bytes=settings.upload_file_mb << 20, queued=runner.call)
    return JobParts(jobs, uploads, runner)


def _asked_directly(connection: EmbeddingProvider, texts: list[str]) -> Vector:
    return connection.embed(texts)
