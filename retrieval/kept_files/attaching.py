"""Kept files become documents of a collection: by a job, like every upload."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieval.jobs.spool import Spool
from retrieval.jobs.stored_jobs import StoredJobs
from retrieval.kept_files.kept_files import KeptFiles, source_of
from schemas.access.owners import Asker
from schemas.contracts.jobs import Job, SpooledFile, Wanted
from schemas.contracts.kept_files import KeptFileNotFoundError
from schemas.contracts.vector_stores import FileToAttach

FILE_ID = "file_id"
"""The metadata of chunks that tells of which kept file they were made."""


class Attaching:
    """Where files are attached; safe for use by several threads. `queued` is called after each new job."""

    def __init__(self, files: KeptFiles, jobs: StoredJobs, spool: Spool, queued: Callable[[], None]) -> None:
        self._files = files
        self._jobs = jobs
        self._spool = spool
        self._queued = queued

    def attach(self, collection_id: str, collection: str, wanted: Sequence[FileToAttach], *, asker: Asker) -> Job:
        """Make a job of files of the asker's, each once, that become documents of a collection.

        Raises KeptFileNotFoundError for the first that the asker has not, JobsFullError, OwnJobsFullError and
        DiskFloorError.
        """
        of_files = {each.file_id: each for each in wanted}
        files = self._files.named(list(of_files), asker=asker)
        with self._spool.begin() as incoming:
            for file in files:
                asked = of_files[file.id]
                spooled = SpooledFile(
                    *(0, file.name, file.media_type, file.size_bytes, file.sha256),
                    file_id=file.id,
                    source=source_of(file),
                    metadata={**asked.attributes, FILE_ID: file.id},
                    windows=asked.windows,
                )
                try:
                    incoming.link(self._files.content(file), spooled)
                except FileNotFoundError:  # deleted meanwhile
                    raise KeptFileNotFoundError(file.id) from None
            incoming.sync()
            job = incoming.job_id, Wanted(collection), incoming.files
            self._jobs.create(*job, asker=asker, collection_id=collection_id)
            incoming.keep()
        self._queued()
        return self._jobs.one(incoming.job_id, asker=asker)
