"""Bring a collection in step with a folder, a file at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from retrieval.clock import utc_now
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.embedding_texts import NOT_EMBEDDED
from retrieval.ingest.files import ingest_file
from retrieval.ingest.identity import one_spelling, same_file
from retrieval.ingest.ingestion import UNCHANGED
from retrieval.ingest.profiles import Chunking
from retrieval.reading import DocumentReader
from retrieval.reading.read_document import EMPTY, UNSUPPORTED_KIND
from retrieval.watching.folder import FileGoneError, Folder, FolderUnavailableError, Listing, Signature
from retrieval.watching.watched_documents import given_file, source_of, stored_files
from schemas.contracts.watchers import MAX_FAILURES
from schemas.errors import RagError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was last read; `digest` is None when it could not be read."""

    signature: Signature | None
    digest: str | None


class FolderSync:
    """A folder and its documents in a collection; to be used by one thread.

    `open_writer` returns a writer that sees the collection as it is then, `open_former` one for the collection in which
    earlier releases stored the folder: from there each document is deleted once it is in the other. `on_progress` is
    called after each file, and from time to time during one. An empty folder with stored documents may be one that is
    not mounted, so it is accepted as empty only when it `may_be_empty`.
    """

    def __init__(
        self,
        folder: Folder,
        open_writer: Callable[[], CollectionWriter],
        *,
        reader: DocumentReader,
        chunking: Chunking,
        open_former: Callable[[], CollectionWriter] | None = None,
        may_be_empty: bool = False,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.folder = folder
        self.indexed = 0
        self.deleted = 0
        self.on_progress: Callable[[], None] = lambda: None
        self.last_change: datetime | None = None
        self._open_writer = open_writer
        self._writer: CollectionWriter | None = None
        self._reader = reader
        self._chunking = chunking
        self._open_former = open_former
        self._former: CollectionWriter | None = None
        self._former_paths: set[str] = set()
        self._may_be_empty = may_be_empty
        self._clock = clock
        self._listing = Listing()
        self._stored: dict[str, str] = {}
        self._seen: dict[str, Seen] = {}
        self._faults: dict[str, str] = {}
        self._empty: dict[str, str] = {}
        self._pending: dict[str, None] = {}
        self._attempts: dict[str, int] = {}

    @property
    def files(self) -> int:
        """The number of files when the folder was last listed."""
        return len(self._listing.files)

    @property
    def folders(self) -> set[str]:
        """The paths of the folders listed then, "" among them."""
        return self._listing.folders

    @property
    def pending(self) -> int:
        """The number of files still to be ingested or deleted."""
        return len(self._pending)

    @property
    def failed(self) -> dict[str, str]:
        """The reasons, by path, why a file or folder is not in the collection as it is. It is tried again once it
        changes."""
        return {**self._listing.refused, **self._faults}

    @property
    def passed_over(self) -> dict[str, str]:
        """The reasons, by path, why a file or folder is not to be in the collection."""
        return {**self._listing.passed_over, **self._empty}

    def read_stored(self) -> None:
        """Read what is stored of the folder. Raises what the store raises."""
        self._writer = self._open_writer()
        self._stored = stored_files(self._writer, self.folder.name, self._chunking)
        if self._open_former is not None:
            self._former = self._open_former()
            self._former_paths = set(stored_files(self._former, self.folder.name))

    def forget(self, paths: Iterable[str]) -> None:
        """Make the next look read these files, whatever their signatures say."""
        for path in paths:
            if path in self._seen:
                self._seen[path] = replace(self._seen[path], signature=None)

    def look(self) -> None:
        """Find the differences between folder and collection.

        Raises FolderUnavailableError when the folder cannot be listed, or is empty and may not be.
        """
        listing = self.folder.listing()
        # A file whose name is spelled otherwise now is still the same document, not one that is gone.
        spelled = {one_spelling(path): path for path in listing.files}
        self._stored = {spelled.get(one_spelling(path), path): digest for path, digest in self._stored.items()}
        self._former_paths = {spelled.get(one_spelling(path), path) for path in self._former_paths}
        gone = [path for path in {**self._stored, **dict.fromkeys(self._former_paths)} if not listing.may_hold(path)]
        if gone and not listing.files and not self._may_be_empty:
            raise FolderUnavailableError(
                f"The folder {self.folder.root} has no files to index, but {len(gone)} of it are stored: "
                "nothing is deleted unless an empty folder is allowed"
            )
        self._name_passed_over(listing)
        self._listing = listing
        self._faults = {path: reason for path, reason in self._faults.items() if path in listing.files}
        self._empty = {path: reason for path, reason in self._empty.items() if path in listing.files}
        self._seen = {path: seen for path, seen in self._seen.items() if path in listing.files}
        differing = [*gone, *(path for path, signature in listing.files.items() if self._differs(path, signature))]
        # Files that failed before come last, so that they do not delay the others.
        self._pending = dict.fromkeys(sorted(differing, key=lambda path: (self._attempts.get(path, 0), path)))

    def work(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Ingest and delete until nothing differs or `is_stopped` returns true between two files.

        A file that cannot be embedded while others can has failed until it changes. Raises what the store and the
        embeddings raise otherwise; the file then stays pending.
        """
        while self._pending and not is_stopped():
            path = next(iter(self._pending))
            try:
                self._bring(path)
            except RagError:
                self._attempts[path] = self._attempts.get(path, 0) + 1
                raise
            self._attempts.pop(path, None)
            del self._pending[path]
            self.on_progress()

    def _name_passed_over(self, listing: Listing) -> None:
        new = sorted(listing.passed_over.keys() - self._listing.passed_over.keys())
        for path in new[:MAX_FAILURES]:
            file = source_of(self.folder.name, path)
            log.info("a file or folder is passed over", file=file, reason=listing.passed_over[path])
        if len(new) > MAX_FAILURES:
            log.info("more are passed over", folder=self.folder.name, count=len(new) - MAX_FAILURES)

    def _differs(self, path: str, signature: Signature) -> bool:
        seen = self._seen.get(path)
        if seen is None or seen.signature != signature:
            return True
        return not self._is_settled(path) and (seen.digest != self._stored.get(path) or path in self._former_paths)

    def _is_settled(self, path: str) -> bool:
        """Return whether a file waits for a change: it was read, and is not in the collection as it is."""
        return path in self._faults or path in self._empty

    def _bring(self, path: str) -> None:
        signature, digest = self._listing.files.get(path), None
        try:
            content, signature = self.folder.read(path)
            digest = hashlib.sha256(content).hexdigest()
            before = self._seen.get(path)
            if digest != self._stored.get(path) and not (self._is_settled(path) and before and before.digest == digest):
                self._ingest(path, content)
                self._stored[path] = digest
            if digest == self._stored.get(path):
                self._faults.pop(path, None)
                self._empty.pop(path, None)
                self._leave_former(path)
        except FileGoneError:
            self._delete(path)
            return
        except NOT_EMBEDDED as error:
            file = source_of(self.folder.name, path)
            if error.code in (EMPTY, UNSUPPORTED_KIND):
                log.info("a file is passed over", file=file, code=error.code, reason=error.message)
                self._forget_stored(path)
                self._empty[path] = error.message
            else:
                log.warning("a file is not indexed", file=file, code=error.code, reason=error.message)
                self._faults[path] = error.message
        self._seen[path] = Seen(signature, digest)

    def _ingest(self, path: str, content: bytes) -> None:
        file = given_file(self.folder.name, path, content)
        done = ingest_file(
            self._opened(),
            file,
            reader=self._reader,
            chunking=self._chunking,
            advance=lambda part: self.on_progress(),
            clock=self._clock,
        )
        if done.status != UNCHANGED:
            self.indexed += 1
            self.last_change = self._clock()
            log.info("indexed", file=file.source, chunks=done.chunks)
        for warning in done.warnings:
            log.warning("a file was read with a warning", file=file.source, warning=warning)

    def _delete(self, path: str) -> None:
        # Checked after the file was found missing: in an unmounted folder all of them are.
        self.folder.check()
        for known in (self._listing.files, self._seen, self._faults, self._empty):
            known.pop(path, None)
        self._forget_stored(path)

    def _forget_stored(self, path: str) -> None:
        was_stored = path in self._stored or path in self._former_paths
        if path in self._stored:
            self._opened().delete(same_file(source_of(self.folder.name, path)))
            del self._stored[path]
        self._leave_former(path)
        if was_stored:
            self.deleted += 1
            self.last_change = self._clock()
            log.info("deleted", file=source_of(self.folder.name, path))

    def _leave_former(self, path: str) -> None:
        if self._former is not None and path in self._former_paths:
            self._former.delete(same_file(source_of(self.folder.name, path)))
            self._former_paths.remove(path)

    def _opened(self) -> CollectionWriter:
        if self._writer is None:
            self._writer = self._open_writer()
        return self._writer
