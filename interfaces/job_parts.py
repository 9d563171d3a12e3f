"""Puts together what takes files in: the spool, the jobs and the thread that works on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from providers.embeddings.base import EmbeddingProvider
from providers.outbound import deadlines
from retrieval.chunking import SplitDocument, Syntax
from retrieval.documents.originals import Originals
from retrieval.ingest.profiles import Chunking
from retrieval.jobs.background_helper import EMBED_SECONDS, BackgroundHelper
from retrieval.jobs.ingesting import JobWork
from retrieval.jobs.runner import JobRunner
from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import Limits, StoredJobs
from retrieval.jobs.uploads import Uploads
from retrieval.reading import DocumentReader, Languages, ReadingLimits
from retrieval.text_collections import TextCollections
from schemas.access.api_keys import KEY_OWNER
from schemas.access.callers import SERVICE, Caller, Kind, Scope, current
from schemas.access.owners import OPEN, USER_OWNER
from schemas.contracts.jobs import Job
from schemas.errors import CollectionForbiddenError, ScopeMissingError, UnauthorizedError
from schemas.records import Vector
from schemas.settings import RetrievalSettings
from wrapper.access.authentication import Authentication
from wrapper.audit.noted import Noted
from wrapper.audit.recording import JOB, Asked
from wrapper.service import Service

NICE, PARSERS = 10, 2
"""The niceness of the processes that parse files of jobs, and how many there are: a file that takes one long holds up
no other. Each may take as much memory as the settings say."""
CREATED = 201
_STORING = Asked("POST", JOB, Scope.WRITE)


def open_jobs(
    service: Service,
    authentication: Authentication,
    texts: TextCollections,
    originals: Originals,
    settings: RetrievalSettings,
    tidy: Callable[[], None],
) -> tuple[StoredJobs, Uploads, JobRunner, BackgroundHelper]:
    """Return the parts of a service, and what embeds for it in the background. Nothing runs until the runner is
    started, which calls `tidy` now and then."""
    data_dir = service.settings.data_dir
    spool = Spool(data_dir)
    jobs = StoredJobs(service.catalog, spool.home, Limits(settings.jobs_waiting, settings.upload_spool_mb << 20))
    limits = ReadingLimits.of(settings)
    reader = DocumentReader(limits, nice=NICE, processes=PARSERS, languages=Languages.of(settings))
    # Two, so that what is split for services and what the model of this machine embeds do not wait for one another.
    background, splitting = BackgroundHelper(data_dir, limits), BackgroundHelper(data_dir, limits)

    def embed(connection: EmbeddingProvider, texts: list[str]) -> Vector:
        if _is_local(connection):
            return background.embed(connection, texts)
        with deadlines.within(EMBED_SECONDS):
            return connection.embed(texts)

    def split(chunking: Chunking, syntax: Syntax, text: str) -> SplitDocument:
        return (background if _is_local(chunking.embedding) else splitting).split(chunking, syntax, text)

    def check_record(job: Job) -> None:
        service.recorder.check(_STORING, Noted(names=[job.wanted.collection]))

    def record(job: Job, chunks: int) -> None:
        """Record a file in the audit log, with the key that the upload came with."""
        noted = Noted(names=[job.wanted.collection], count=chunks, is_recordable=True)
        service.recorder.record(_STORING, noted, current(), CREATED)

    work = JobWork(
        *(jobs, spool, texts, originals, reader, settings),
        embed=embed,
        split=split,
        caller_of=partial(caller_of_job, authentication),
        stopping=threading.Event(),
        check_record=check_record,
        record=record,
    )
    runner = JobRunner(work, connections_of=texts.versions_of, workers=(background, splitting, reader), tidy=tidy)
    uploads = Uploads(
        *(jobs, spool),
        max_file_bytes=settings.upload_file_mb << 20,
        id_of=texts.id_of,
        queued=runner.call,
    )
    return jobs, uploads, runner, background


def caller_of_job(authentication: Authentication, job: Job) -> Caller:
    """Return for whom a job works: for a key with the rights that it has now, for a user in the job's collection, which
    was theirs when the files arrived.

    Raises UnauthorizedError when no key of the owner counts any more, and for an owner of another kind,
    ScopeMissingError when the key may not write any more, and CollectionForbiddenError when it may not write there.
    """
    owner = job.of.owner
    if owner.startswith(KEY_OWNER):
        caller = authentication.caller_of_owner(owner.removeprefix(KEY_OWNER))
        if not caller.may(Scope.WRITE):
            raise ScopeMissingError(Scope.WRITE)
        if not caller.knows(job.wanted.collection):
            raise CollectionForbiddenError(job.wanted.collection)
        return caller
    if owner == OPEN:
        return SERVICE
    if not owner.startswith(USER_OWNER):
        raise UnauthorizedError("Nobody is known for whom this job could work")
    return Caller(owner, owner, Kind.USER, frozenset({Scope.WRITE}), owner, (job.wanted.collection,))


def _is_local(connection: EmbeddingProvider) -> bool:
    return connection.address(connection.config) is None
